#include "base/service/log_output.h"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <memory>
#include <utility>

#include "base/os/atomic_file.h"
#include "base/os/streams/rotated_file_sink.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "spdlog/formatter.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace autocfg::base {
namespace {

constexpr std::size_t kLeastFileBytes = 4096;
constexpr double kMostFileBytes = 1e12;
constexpr double kMostOldFiles = 1000;

// What AlwaysLog follows. Set before other threads start.
LogFormat set_format = LogFormat::kText;
bool set_file = false;

// As AUTOCFG_LOG names them.
std::string_view LevelName(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace: return "trace";
    case spdlog::level::debug: return "debug";
    case spdlog::level::info: return "info";
    case spdlog::level::warn: return "warn";
    case spdlog::level::err: return "error";
    default: return "critical";
  }
}

std::string TimeText(std::chrono::system_clock::time_point time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const auto rest = std::chrono::floor<std::chrono::milliseconds>(time - whole);
  const std::tm utc = fmt::gmtime(std::chrono::system_clock::to_time_t(whole));
  return fmt::format("{:%FT%T}.{:03}Z", utc, rest.count());
}

class JsonFormatter final : public spdlog::formatter {
 public:
  // Runs on the thread that logs.
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::string text =
        JsonLogLine(message.time, LevelName(message.level), {message.payload.data(), message.payload.size()},
                    LogScope::Current());
    line.append(text.data(), text.data() + text.size());
    line.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

// A file has the times that a supervisor adds to standard error.
std::unique_ptr<spdlog::formatter> FormatterOf(const LogOutput& output) {
  if (output.format == LogFormat::kJson) return std::make_unique<JsonFormatter>();
  const std::string pattern =
      output.file.empty() ? output.program + ": %v" : std::string("%Y-%m-%dT%H:%M:%S.%eZ %l: %v");
  return std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc);
}

absl::StatusOr<double> WholeNumber(const char* option, const std::string& text, Quantity quantity,
                                   double least, double most) {
  const auto value = ParseQuantity(quantity, text);
  if (value.ok() && *value >= least && *value <= most && *value == std::floor(*value)) return *value;
  return absl::InvalidArgumentError(
      fmt::format("{}: '{}' is not a whole number from {} to {}", option, Printable(text), least, most));
}

}  // namespace

absl::StatusOr<LogOutput> LogOutputOf(const std::string& program, const LogOptions& options) {
  LogOutput output{.program = program, .file = options.file};
  if (options.format == "json") {
    output.format = LogFormat::kJson;
  } else if (!options.format.empty() && options.format != "text") {
    return absl::InvalidArgumentError(
        fmt::format("--log-format: unknown format '{}'; expected text or json", Printable(options.format)));
  }
  for (const auto& [option, given] :
       {std::pair("--log-max-bytes", &options.max_bytes), std::pair("--log-keep", &options.keep)}) {
    if (!given->empty() && options.file.empty())
      return absl::InvalidArgumentError(
          fmt::format("{}: only a file is rotated; give --log-file too", option));
  }
  if (!options.max_bytes.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto bytes,
                             WholeNumber("--log-max-bytes", options.max_bytes, Quantity::kBytes,
                                         static_cast<double>(kLeastFileBytes), kMostFileBytes));
    output.file_bytes = static_cast<std::size_t>(bytes);
  }
  if (!options.keep.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto keep,
                             WholeNumber("--log-keep", options.keep, Quantity::kTokens, 0, kMostOldFiles));
    output.old_files = static_cast<std::size_t>(keep);
  }
  return output;
}

absl::Status SetLogOutput(const LogOutput& output) {
  if (IsSpecialFile(output.file)) {
    return absl::InvalidArgumentError(
        fmt::format("--log-file: {}: is no regular file, and its rotation would rename it; name another file",
                    Printable(output.file)));
  }
  try {
    std::shared_ptr<spdlog::sinks::sink> sink;
    if (output.file.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      const auto say = [program = output.program](const std::string& why) {
        fmt::print(stderr, "{}: the log goes on in the file that was renamed: {}\n", program, OneLine(why));
      };
      sink = std::make_shared<RotatedFileSink>(output.file, output.file_bytes, output.old_files,
                                               RotatedFileEvents{.on_failure = say});
    }
    auto logger = std::make_shared<spdlog::logger>(output.program, std::move(sink));
    logger->set_formatter(FormatterOf(output));
    logger->set_level(spdlog::default_logger()->level());
    logger->flush_on(spdlog::level::trace);
    logger->set_error_handler([program = output.program](const std::string& error) {
      fmt::print(stderr, "{}: a line of the log was not written: {}\n", program, error);
    });
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::UnavailableError(
        fmt::format("--log-file: {}: cannot be written: {}", Printable(output.file), OneLine(error.what())));
  }
  set_format = output.format;
  set_file = !output.file.empty();
  return absl::OkStatus();
}

void AlwaysLog(std::string_view program, bool error, std::string_view message) {
  if (set_file) {
    spdlog::log(error ? spdlog::level::critical : spdlog::level::info, "{}", message);
  }
  std::string line;
  if (set_format == LogFormat::kJson && !set_file) {
    line = JsonLogLine(std::chrono::system_clock::now(), error ? "critical" : "info", message,
                       LogScope::Current());
  } else {
    line = fmt::format("{}: {}", program, message);
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
  }
  line += '\n';
  // With a single write, so that lines of several processes do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string JsonLogLine(std::chrono::system_clock::time_point time, std::string_view level,
                        std::string_view message, const LogFields& fields) {
  nlohmann::ordered_json line = {{"time", TimeText(time)}, {"level", level}, {"message", message}};
  for (const auto& [name, value] : {std::pair("study", &fields.study), std::pair("trial", &fields.trial),
                                    std::pair("worker", &fields.worker), std::pair("lease", &fields.lease),
                                    std::pair("trace", &fields.trace)}) {
    if (!value->empty()) line[name] = *value;
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace autocfg::base
