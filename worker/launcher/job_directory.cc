#include "worker/launcher/job_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
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
constexpr const char* kVariable = "UCX_POSIX_DIR";

// Opens and locks the directory. Returns an empty UniqueFd if another process holds it or it is gone.
base::UniqueFd Lock(const std::string& path) {
  base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok() || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return base::UniqueFd();
  // Another launcher may have removed the name between open and lock.
  struct stat held {
  }, named{};
  if (::fstat(fd.get(), &held) != 0 || ::lstat(path.c_str(), &named) != 0 || held.st_ino != named.st_ino) {
    return base::UniqueFd();
  }
  return fd;
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
    const base::UniqueFd lock = Lock(entry->path().string());
    if (lock.ok()) Remove(entry->path().string());
  }
}

}  // namespace

JobDirectory::JobDirectory(const std::string& parent) {
  RemoveAbandoned(parent);
  // Another launcher may remove a new directory before it is locked. The next attempt uses a new name.
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::string path = parent + "/" + kPrefix + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      spdlog::error("cannot make a directory for the job in {}: {}; its ranks use UCX's default", parent,
                    std::strerror(errno));
      return;
    }
    base::UniqueFd lock = Lock(path);
    if (!lock.ok()) continue;
    path_ = std::move(path);
    lock_ = std::move(lock);
    return;
  }
  spdlog::error("cannot keep a directory for the job in {}; its ranks use UCX's default", parent);
}

JobDirectory::~JobDirectory() {
  if (!path_.empty()) Remove(path_);
}

std::vector<std::string> JobDirectory::Environment() const {
  if (path_.empty() || std::getenv(kVariable) != nullptr) return {};
  return {std::string(kVariable) + "=" + path_};
}

}  // namespace autocfg::worker
