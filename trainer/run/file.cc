#include "trainer/run/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "trainer/errors.h"

namespace autocfg {
namespace {

std::string ErrnoText() { return std::generic_category().message(errno); }

}  // namespace

File File::OpenToRead(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw BadInput(fmt::format("cannot open {}: {}", path, ErrnoText()));
  File file(path, fd);
  struct stat info {};
  if (fstat(fd, &info) != 0) throw BadInput(fmt::format("cannot open {}: {}", path, ErrnoText()));
  if (!S_ISREG(info.st_mode)) throw BadInput(fmt::format("cannot open {}: it is not a regular file", path));
  return file;
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

std::int64_t File::Size() const {
  struct stat info {};
  if (fstat(fd_, &info) != 0) throw BadInput(fmt::format("cannot read {}: {}", path_, ErrnoText()));
  return info.st_size;
}

void File::ReadAt(std::int64_t offset, void* data, std::int64_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = pread(fd_, to, static_cast<std::size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw BadInput(fmt::format("cannot read {}: {}", path_, ErrnoText()));
    if (n == 0) throw BadInput(fmt::format("{} ends at byte {}, {} bytes too early", path_, offset, bytes));
    to += n;
    offset += n;
    bytes -= n;
  }
}

FileReplacement::FileReplacement(std::string path) : path_(std::move(path)), fd_(-1) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(path_, error)) {
    if (!fs::is_regular_file(path_, error))
      throw BadInput(fmt::format("cannot write {}: it is not a regular file", path_));
    const fs::path target = fs::canonical(path_, error);
    if (error) throw BadInput(fmt::format("cannot write {}: {}", path_, error.message()));
    path_ = target.string();
  }
  temporary_ = fmt::format("{}.{}.partial", path_, getpid());
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) throw BadInput(fmt::format("cannot write {}: {}", path_, ErrnoText()));
}

FileReplacement::~FileReplacement() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

void FileReplacement::Append(const void* data, std::int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write(fd_, from, static_cast<std::size_t>(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) Fail("write");
    from += n;
    bytes -= n;
  }
}

void FileReplacement::Finish() {
  if (fsync(fd_) != 0) Fail("write");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) Fail("replace");
  close(std::exchange(fd_, -1));
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  const int directory = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) Fail("replace");
  const bool durable = fsync(directory) == 0;
  close(directory);
  if (!durable) Fail("replace");
}

void FileReplacement::Fail(const char* what) const {
  throw BadInput(fmt::format("cannot {} {}: {}", what, path_, ErrnoText()));
}

}  // namespace autocfg
