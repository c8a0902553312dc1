#include "worker/launcher/job_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "spdlog/spdlog.h"

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "autocfg-job-";
constexpr const char* kLock = ".lock";
constexpr const char* kVariable = "UCX_POSIX_DIR";

base::FileLock Lock(const std::string& file, int flags = 0) {
  return base::FileLock(base::UniqueFd(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600)));
}

void Remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) spdlog::warn("cannot remove {}: {}", path, error.message());
}

void RemoveAbandoned(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().rfind(kPrefix, 0) != 0) continue;
    const base::FileLock lock = Lock(entry->path() / kLock);
    if (lock.held()) Remove(entry->path().string());
  }
}

}  // namespace

JobDirectory::JobDirectory(const std::string& parent) {
  RemoveAbandoned(parent);
  std::string path = parent + "/" + kPrefix + "XXXXXX";
  int error = ::mkdtemp(path.data()) == nullptr ? errno : 0;
  if (error == 0) {
    // The file gets its name when it is locked: other launchers leave a directory without one alone.
    const std::string unnamed = path + "/new";
    lock_ = Lock(unnamed, O_CREAT | O_EXCL);
    error = lock_.error();
    if (error == 0 && ::rename(unnamed.c_str(), (path + "/" + kLock).c_str()) != 0) error = errno;
    if (error != 0) Remove(path);
  }
  if (error == 0) {
    path_ = std::move(path);
  } else {
    spdlog::error("cannot make a directory for the job in {}: {}; its ranks use UCX's default", parent,
                  std::strerror(error));
  }
}

JobDirectory::~JobDirectory() {
  if (!path_.empty()) Remove(path_);
}

std::vector<std::string> JobDirectory::Environment() const {
  if (path_.empty() || std::getenv(kVariable) != nullptr) return {};
  return {std::string(kVariable) + "=" + path_};
}

}  // namespace autocfg::worker
