#include "server/access/rotated_lines.h"

#include <cstddef>
#include <exception>

#include "base/os/atomic_file.h"
#include "base/os/streams/rotated_file_sink.h"
#include "fmt/format.h"
#include "spdlog/logger.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

constexpr std::size_t kFileBytes = std::size_t{16} << 20;
constexpr std::size_t kOldFiles = 8;

base::RotatedFileEvents EventsOf(const std::string& path) {
  return {.on_anew =
              [path] {
                spdlog::warn("{}: the file of the audit log was removed or renamed; it is begun anew", path);
              },
          .on_failure =
              [path](const std::string& why) {
                spdlog::error("{}: the audit log goes on in the file that was renamed: {}", path, why);
              }};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RotatedLines>> RotatedLines::Open(const std::string& path) {
  if (base::IsSpecialFile(path)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is no regular file, and its rotation would rename it; name another file", path));
  }
  try {
    auto lines = std::make_shared<spdlog::logger>(
        "audit", std::make_shared<base::RotatedFileSink>(path, kFileBytes, kOldFiles, EventsOf(path)));
    lines->set_pattern("%v");
    lines->set_level(spdlog::level::info);
    lines->flush_on(spdlog::level::info);
    lines->set_error_handler([path](const std::string& error) {
      spdlog::error("{}: an entry of the audit log was not written: {}", path, error);
    });
    return std::unique_ptr<RotatedLines>(new RotatedLines(std::move(lines)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(fmt::format("{}: the audit log cannot be written: {}", path, error.what()));
  }
}

void RotatedLines::Write(const std::string& line) { lines_->info("{}", line); }

}  // namespace autocfg::server
