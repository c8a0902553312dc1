#include "server/store/inode_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/os/unique_fd.h"
#include "fmt/format.h"
#include "server/store/lock_file.h"

namespace autocfg::server {
namespace {

using Inode = std::pair<dev_t, ino_t>;

// The inodes that this process has locked. They must be known before a file is opened: if it turned out to
// be locked by this process, closing it again would drop SQLite's locks.
struct Held {
  absl::Mutex mutex;
  std::set<Inode> inodes;
};
Held& ThisProcess() {
  static Held& held = *new Held;  // never destroyed: locks may outlive other static objects
  return held;
}

// Returns true if the description of an open file (/proc/PID/fdinfo/FD) has this lock.
bool HasLock(const std::filesystem::path& description, ino_t inode) {
  std::ifstream in(description);
  const std::string file = fmt::format(":{} {} {}", inode, base::FileLock::kByte, base::FileLock::kByte);
  for (std::string line; std::getline(in, line);) {
    if (line.find("OFDLCK") != std::string::npos && line.ends_with(file)) return true;
  }
  return false;
}

// Returns the process that holds the lock: its ID, or "(unknown)" if it is another user's or not visible
// here.
std::string Holder(const struct stat& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    std::string id = process->path().filename();
    if (!std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    std::error_code hidden;
    for (fs::directory_iterator fd(process->path() / "fd", hidden); !hidden && fd != fs::directory_iterator();
         fd.increment(hidden)) {
      struct stat open {};
      if (::stat(fd->path().c_str(), &open) == 0 && open.st_dev == file.st_dev &&
          open.st_ino == file.st_ino &&
          HasLock(process->path() / "fdinfo" / fd->path().filename(), file.st_ino)) {
        return id;
      }
    }
  }
  return "(unknown)";
}

absl::Status NotRegular(const std::string& path) {
  return absl::InvalidArgumentError(fmt::format("database {} is not a regular file; name one", path));
}

absl::Status InUse(const std::string& path, const struct stat& file) {
  return InUseError(fmt::format(
      "database {} is in use by process {}, which opened it under another name or whose lock file was "
      "deleted; wait for it, stop it, or choose another --db",
      path, Holder(file)));
}

}  // namespace

absl::Status InodeLock::CheckSqliteHeader(const std::string& path) {
  constexpr std::string_view kHeader("SQLite format 3\0", 16);
  Held& held = ThisProcess();
  absl::MutexLock lock(&held.mutex);
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return absl::OkStatus();
  if (!S_ISREG(file.st_mode)) return NotRegular(path);
  if (held.inodes.contains({file.st_dev, file.st_ino})) return InUse(path, file);
  // Under the mutex, since closing the file drops the locks of this process: it has none.
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return FileError(errno, fmt::format("database {} cannot be opened", path));
  char start[kHeader.size()] = {};
  const ssize_t length = ::pread(fd.get(), start, sizeof start, 0);
  if (length == 0 || (length > 0 && std::string_view(start, sizeof start) == kHeader))
    return absl::OkStatus();
  if (length < 0) return FileError(errno, fmt::format("database {} cannot be read", path));
  // Power was lost while the database was created: SQLite rolls that back.
  if (::access((path + "-journal").c_str(), F_OK) == 0) return absl::OkStatus();
  return absl::DataLossError(fmt::format("{} is not a database of autocfg; choose another --db", path));
}

absl::StatusOr<InodeLock> InodeLock::Acquire(const std::string& path) {
  const auto cannot = [&path](int error) {
    return FileError(error, fmt::format("database {} cannot be opened", path));
  };
  Held& held = ThisProcess();
  absl::MutexLock lock(&held.mutex);
  struct stat file {};
  if (::stat(path.c_str(), &file) == 0 && held.inodes.contains({file.st_dev, file.st_ino}))
    return InUse(path, file);
  base::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.ok() || ::fstat(fd.get(), &file) != 0) return cannot(errno);
  if (!S_ISREG(file.st_mode)) return NotRegular(path);
  base::FileLock taken(std::move(fd));
  if (taken.error() == EWOULDBLOCK) return InUse(path, file);
  if (!taken.held()) return FileError(taken.error(), fmt::format("database {} cannot be locked", path));
  held.inodes.insert({file.st_dev, file.st_ino});
  return InodeLock(std::move(taken), file.st_dev, file.st_ino);
}

InodeLock::InodeLock(base::FileLock lock, dev_t device, ino_t inode)
    : lock_(std::move(lock)), device_(device), inode_(inode) {}

InodeLock::InodeLock(InodeLock&& other) noexcept
    : lock_(std::move(other.lock_)), device_(other.device_), inode_(other.inode_) {}

InodeLock::~InodeLock() {
  if (!lock_.held()) return;
  Held& held = ThisProcess();
  absl::MutexLock lock(&held.mutex);
  held.inodes.erase({device_, inode_});
  lock_.Release();
}

}  // namespace autocfg::server
