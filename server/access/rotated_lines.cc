#include "server/access/rotated_lines.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <exception>

#include "base/os/atomic_file.h"
#include "fmt/format.h"
#include "spdlog/logger.h"
#include "spdlog/sinks/rotating_file_sink.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

constexpr std::size_t kFileBytes = std::size_t{16} << 20;
constexpr std::size_t kOldFiles = 8;

bool IsMissing(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RotatedLines>> RotatedLines::Open(const std::string& path) {
  if (base::IsSpecialFile(path)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is no regular file, and its rotation would rename it; name another file", path));
  }
  std::unique_ptr<RotatedLines> opened(new RotatedLines(path));
  absl::MutexLock lock(&opened->mutex_);
  if (absl::Status status = opened->Begin(); !status.ok()) return status;
  return opened;
}

absl::Status RotatedLines::Begin() {
  lines_.reset();
  try {
    auto lines = std::make_shared<spdlog::logger>(
        "audit", std::make_shared<spdlog::sinks::rotating_file_sink_st>(path_, kFileBytes, kOldFiles));
    lines->set_pattern("%v");
    lines->set_level(spdlog::level::info);
    lines->flush_on(spdlog::level::info);
    lines->set_error_handler([path = path_](const std::string& error) {
      spdlog::error("{}: an entry of the audit log was not written: {}", path, error);
    });
    lines_ = std::move(lines);
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        fmt::format("{}: the audit log cannot be written: {}", path_, error.what()));
  }
}

void RotatedLines::Write(const std::string& line) {
  absl::MutexLock lock(&mutex_);
  if (lines_ == nullptr || IsMissing(path_)) {
    if (absl::Status status = Begin(); !status.ok()) {
      spdlog::error("{}; an entry was not written", std::string(status.message()));
      return;
    }
    spdlog::warn("{}: the file of the audit log was removed or renamed; it is begun anew", path_);
  }
  lines_->info("{}", line);
}

}  // namespace autocfg::server
