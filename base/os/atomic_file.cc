#include "base/os/atomic_file.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/os/host.h"
#include "fmt/format.h"

namespace autocfg::base {
namespace {

constexpr int kMaxLinks = 40;  // the kernel's own limit
constexpr int kMaxNames = 100;

std::error_code ErrorOf(int error) { return {error, std::generic_category()}; }
std::error_code LastError() { return ErrorOf(errno); }

// Renames a file to a name that does not exist; else EEXIST. Returns 0 or the error's number.
int RenameToNewName(const char* from, const char* to) {
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // The file system cannot do both at once.
  if (access(to, F_OK) == 0) return EEXIST;
  return std::rename(from, to) == 0 ? 0 : errno;
}

}  // namespace

std::filesystem::path FollowLinks(std::filesystem::path path,
                                  const std::function<bool(const std::filesystem::path&)>& ends_at) {
  std::error_code error;
  for (int i = 0; i < kMaxLinks && std::filesystem::is_symlink(path, error) && !ends_at(path); ++i) {
    const auto link = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / link;  // yields `link` alone if it is absolute
  }
  return path;
}

bool IsSpecialFile(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

std::error_code AtomicFile::Open(mode_t mode) {
  for (int i = 0; i < kMaxNames; ++i) {
    std::string name = fmt::format("{}.{}.tmp", path_, RandomId().substr(0, 8));
    fd_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd_ >= 0) {
      temporary_ = std::move(name);
      return {};
    }
    if (errno != EEXIST && errno != EINTR) return LastError();
  }
  return LastError();
}

std::error_code AtomicFile::Reserve(std::int64_t bytes) {
  if (bytes <= 0 || fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) return {};
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? LastError() : std::error_code();
}

void AtomicFile::StartFlush() {
  // A hint; an error shows in Sync.
  (void)sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
}

std::error_code AtomicFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return LastError();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

std::error_code AtomicFile::Sync() { return fsync(fd_) == 0 ? std::error_code() : LastError(); }

std::error_code AtomicFile::Finish(bool replace) {
  if (const std::error_code error = Sync(); error) return error;
  // Opened before the rename. If the directory is writable but not readable, its whole file system is synced
  // instead.
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  const int directory = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 && errno != EACCES) return LastError();
  int error = 0;
  if (!replace) {
    error = RenameToNewName(temporary_.c_str(), path_.c_str());
  } else if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    error = errno;
  }
  if (error == 0) {
    temporary_.clear();
    if ((directory >= 0 ? fsync(directory) : syncfs(fd_)) != 0) error = errno;
    if (error == EINVAL) error = 0;  // the file system cannot sync directories
  }
  if (directory >= 0) close(directory);
  // On network file systems, close() may be what reports a full disk.
  if (close(std::exchange(fd_, -1)) != 0 && error == 0) error = errno;
  return error == 0 ? std::error_code() : ErrorOf(error);
}

}  // namespace autocfg::base
