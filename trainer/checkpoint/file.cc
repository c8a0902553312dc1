#include "trainer/checkpoint/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "trainer/layout/errors.h"

namespace autocfg::trainer {
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

FileReplacement::FileReplacement(std::string path)
    : path_(base::FollowLinks(std::move(path)).string()), file_(path_) {
  std::error_code error;
  if (std::filesystem::exists(path_, error) && !std::filesystem::is_regular_file(path_, error))
    throw BadInput(fmt::format("cannot write {}: it is not a regular file", path_));
  Check(file_.Open(), "write");
}

void FileReplacement::Append(const void* data, std::int64_t bytes) {
  Check(file_.Append({static_cast<const char*>(data), static_cast<std::size_t>(bytes)}), "write");
}

void FileReplacement::Finish() { Check(file_.Finish(), "replace"); }

void FileReplacement::Check(const std::error_code& error, const char* what) const {
  if (error) throw WriteFailed(fmt::format("cannot {} {}: {}", what, path_, error.message()));
}

}  // namespace autocfg::trainer
