// Where a service's log goes and in which form: lines of text, or a JSON object a line for programs that
// collect logs; standard error, or a file that is rotated. docs/operations.md, "Logs", has the fields.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/os/log_fields.h"

namespace autocfg::base {

enum class LogFormat : std::uint8_t { kText, kJson };

struct LogOutput {
  std::string program;  // text on standard error begins with it
  LogFormat format = LogFormat::kText;
  std::string file = {};  // empty: standard error
  // As of RotatedFileSink.
  std::size_t file_bytes = std::size_t{64} << 20;
  std::size_t old_files = 8;
};

// Values of the options --log-format, --log-file, --log-max-bytes and --log-keep; empty: not given.
struct LogOptions {
  std::string format = {}, file = {}, max_bytes = {}, keep = {};
};

// Adds the options to a parser of CLI11. `options` must outlive the parsing.
template <typename App>
void AddLogOptions(App& app, LogOptions& options) {
  app.add_option("--log-format", options.format,
                 "text, or json: one object a line, with the IDs of study, trial, worker, lease and trace "
                 "(default: text)");
  app.add_option("--log-file", options.file, "write the log to this file (default: standard error)");
  app.add_option("--log-max-bytes", options.max_bytes,
                 "the log's file is rotated beyond this size, such as 64MiB (the default)");
  app.add_option("--log-keep", options.keep, "how many rotated files are kept (default: 8)");
}

// Returns what the options say. InvalidArgument names the option.
absl::StatusOr<LogOutput> LogOutputOf(const std::string& program, const LogOptions& options);

// Sends the process's log there from now on; its level stays. InvalidArgument: the file is no regular one.
// Unavailable, with the reason: it cannot be written. Call while no other thread logs.
absl::Status SetLogOutput(const LogOutput& output);

// Writes a line that users see whatever the log's level: where the program listens, why it ends. It goes to
// standard error, in the form of the log, and to the log's file too. Control characters become spaces in
// text.
void AlwaysLog(std::string_view program, bool error, std::string_view message);

// Returns one line of the JSON form, without its end. `level`: as AUTOCFG_LOG names it. Bytes that are no
// UTF-8 become U+FFFD.
std::string JsonLogLine(std::chrono::system_clock::time_point time, std::string_view level,
                        std::string_view message, const LogFields& fields);

}  // namespace autocfg::base
