#include "cli/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::int64_t kMaxTextBytes = 16 << 20;

absl::Status FileError(const std::string& path, std::string_view what, int error) {
  const std::string message = fmt::format("{}: {} ({})", path, what, std::generic_category().message(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  // The error of close, which may be where a full disk shows; 0 without one.
  int Close() {
    const int fd = fd_;
    fd_ = -1;
    return close(fd) == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

absl::Status CheckNotDirectory(const std::string& path, int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return FileError(path, "cannot be examined", errno);
  if (S_ISDIR(info.st_mode))
    return absl::InvalidArgumentError(fmt::format("{}: is a directory; give a file", path));
  return absl::OkStatus();
}

std::string TemporaryName(const std::string& path) { return fmt::format("{}.{}.tmp", path, getpid()); }

absl::Status WriteAll(const std::string& path, const std::string& temporary, std::string_view content) {
  Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) return FileError(path, "cannot be written", errno);
  while (!content.empty()) {
    const ssize_t written = write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path, "cannot be written", errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  if (fsync(file.get()) != 0) return FileError(path, "cannot be written", errno);
  if (const int error = file.Close(); error != 0) return FileError(path, "cannot be written", error);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return FileError(path, "cannot be read", errno);
  if (auto status = CheckNotDirectory(path, file.get()); !status.ok()) return status;
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, "cannot be read", errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (static_cast<std::int64_t>(text.size()) > kMaxTextBytes) {
      return absl::InvalidArgumentError(
          fmt::format("{}: larger than {} bytes; not a file of this kind", path, kMaxTextBytes));
    }
  }
}

absl::Status CheckReadable(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return FileError(path, "cannot be read", errno);
  return CheckNotDirectory(path, file.get());
}

absl::Status CheckWritable(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("an empty file name; name a file to write");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(fmt::format("{}: is a directory; name a file to write", path));
  }
  const std::string temporary = TemporaryName(path);
  auto status = WriteAll(path, temporary, "autocfg\n");
  unlink(temporary.c_str());
  return status;
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  const std::string temporary = TemporaryName(path);
  auto status = WriteAll(path, temporary, content);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0)
    status = FileError(path, "cannot be replaced", errno);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace autocfg
