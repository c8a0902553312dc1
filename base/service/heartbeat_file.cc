#include "base/service/heartbeat_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/os/unique_fd.h"
#include "base/text.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace autocfg::base {
namespace {

constexpr mode_t kReadableByAll = 0644;

// Creates the file, or sets its times to now. Returns errno; 0 if it could.
int Touch(const std::string& path) {
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kReadableByAll));
  if (file.get() < 0 || ::futimens(file.get(), nullptr) != 0) return errno;
  return 0;
}

}  // namespace

HeartbeatFile::~HeartbeatFile() {
  watch_.reset();
  if (!path_.empty()) ::unlink(path_.c_str());
}

absl::Status HeartbeatFile::Prepare(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(
        fmt::format("{} is not a file; name one that may be replaced", Printable(path)));
  const int error = Touch(path);
  if (error != 0 || ::unlink(path.c_str()) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} cannot be written: {}", Printable(path),
                    std::generic_category().message(error != 0 ? error : errno)));
  }
  path_ = path;
  return absl::OkStatus();
}

void HeartbeatFile::Start(std::function<std::vector<LoopRounds>()> rounds) {
  if (path_.empty()) return;
  Beat();
  watch_ = std::make_unique<LoopWatch>(
      LoopWatchOptions{.name = "heartbeat", .rounds = std::move(rounds), .alive = [this] { Beat(); }});
}

void HeartbeatFile::Beat() {
  const int error = Touch(path_);
  if (error == 0) {
    failed_ = false;
  } else if (!std::exchange(failed_, true)) {
    spdlog::warn("{} cannot be written: {}", path_, std::generic_category().message(error));
  }
}

}  // namespace autocfg::base
