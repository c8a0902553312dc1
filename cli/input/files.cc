#include "cli/input/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/numbers.h"
#include "base/os/atomic_file.h"
#include "base/status_macros.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

constexpr std::int64_t kMaxTextBytes = 16 << 20;

// Returns what the user can do about a failed system call on a file that is read, or written.
std::string_view AdviceFor(int error, bool writes) {
  switch (error) {
    case ENOENT: return writes ? "give a file in an existing directory" : "give an existing file";
    case EACCES:
    case EPERM: return writes ? "give a file that you may write" : "give a file that you may read";
    case ENOSPC:
    case EDQUOT: return "free some space, or give a file elsewhere";
    default: return "give another file";
  }
}

absl::Status FileError(const std::string& path, std::string_view what, int error, bool writes) {
  const std::string message = fmt::format("{}: {} ({}); {}", path, what,
                                          std::generic_category().message(error), AdviceFor(error, writes));
  switch (error) {
    case ENOENT: return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    // Not ResourceExhausted, which means a full service. Another file may work.
    case EFBIG: return absl::FailedPreconditionError(message);
    default: return absl::InvalidArgumentError(message);
  }
}

absl::Status CannotRead(const std::string& path, int error) {
  return FileError(path, "cannot be read", error, /*writes=*/false);
}

absl::Status CannotWrite(const std::string& path, int error) {
  return FileError(path, "cannot be written", error, /*writes=*/true);
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
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Opening does not block if a pipe has no writer.
constexpr int kOpenToRead = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr int kPipeWaitMs = 10'000;

absl::StatusOr<mode_t> ModeOf(const std::string& path, int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return FileError(path, "cannot be examined", errno, /*writes=*/false);
  if (S_ISDIR(info.st_mode))
    return absl::InvalidArgumentError(fmt::format("{}: is a directory; give a file", path));
  return info.st_mode;
}

absl::Status NotRegular(const std::string& path) {
  return absl::InvalidArgumentError(fmt::format("{}: is not a regular file; give one", path));
}

// Resolved destination of a path that is to be written.
struct WriteTarget {
  std::string path;         // symbolic links resolved, so that the links are kept
  int descriptor = -1;      // of this process, if the path names one (/dev/stdout, /dev/fd/3)
  bool is_special = false;  // a device or a pipe: written in place, never replaced
};

// Returns the descriptor of this process that the path names; -1 if it names none.
int NamedDescriptor(const std::filesystem::path& path) {
  std::error_code error;
  const auto parent = std::filesystem::canonical(path.parent_path(), error);
  if (error || parent != fmt::format("/proc/{}/fd", getpid())) return -1;
  return base::ParseNumber<int>(path.filename().string(), 0).value_or(-1);
}

WriteTarget Resolve(const std::string& given) {
  int descriptor = -1;
  const std::filesystem::path path = base::FollowLinks(given, [&](const std::filesystem::path& link) {
    descriptor = NamedDescriptor(link);
    return descriptor >= 0;
  });
  if (descriptor >= 0) return {given, descriptor, true};
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return {path, -1, std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)};
}

absl::Status WriteAll(const std::string& path, int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // a full non-blocking pipe
      pollfd pipe{fd, POLLOUT, 0};
      if (poll(&pipe, 1, -1) > 0) continue;
    }
    if (written < 0) return CannotWrite(path, errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteSpecial(const std::string& path, const WriteTarget& target, std::string_view content) {
  Descriptor file(target.descriptor >= 0
                      ? fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0)
                      : open(target.path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) return CannotWrite(path, errno);
  // `path` is opened non-blocking and written blocking. An inherited descriptor keeps its mode.
  if (target.descriptor < 0 && fcntl(file.get(), F_SETFL, 0) != 0) return CannotWrite(path, errno);
  return WriteAll(path, file.get(), content);
}

absl::Status AlsoTheFileOf(const FileOfOption& written, const FileOfOption& other) {
  return absl::InvalidArgumentError(fmt::format("{}: {} is also the file of {}; name another file",
                                                written.option, written.path, other.option));
}

absl::Status CheckSpecial(const std::string& path, const WriteTarget& target) {
  if (target.descriptor >= 0) {
    const int flags = fcntl(target.descriptor, F_GETFL);
    const int error = flags < 0 ? errno : (flags & O_ACCMODE) == O_RDONLY ? EBADF : 0;
    return error == 0 ? absl::OkStatus() : CannotWrite(path, error);
  }
  if (access(target.path.c_str(), W_OK) != 0) return CannotWrite(path, errno);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  Descriptor file(open(path.c_str(), kOpenToRead));
  if (file.get() < 0) return CannotRead(path, errno);
  AUTOCFG_ASSIGN_OR_RETURN(const auto mode, ModeOf(path, file.get()));
  if (!S_ISREG(mode) && !S_ISFIFO(mode)) return NotRegular(path);
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {  // an open pipe without data yet
      pollfd pipe{file.get(), POLLIN, 0};
      if (const int ready = poll(&pipe, 1, kPipeWaitMs); ready > 0 || (ready < 0 && errno == EINTR)) continue;
      return absl::InvalidArgumentError(
          fmt::format("{}: nothing came through this pipe for {} s; give a file", path, kPipeWaitMs / 1000));
    }
    if (got < 0) return CannotRead(path, errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (static_cast<std::int64_t>(text.size()) > kMaxTextBytes) {
      return absl::InvalidArgumentError(
          fmt::format("{}: larger than {} bytes; give a smaller file", path, kMaxTextBytes));
    }
  }
}

absl::StatusOr<int> OpenToRead(const std::string& path) {
  Descriptor file(open(path.c_str(), kOpenToRead));
  if (file.get() < 0) return CannotRead(path, errno);
  AUTOCFG_ASSIGN_OR_RETURN(const auto mode, ModeOf(path, file.get()));
  if (!S_ISREG(mode) && !S_ISFIFO(mode)) return NotRegular(path);
  return file.Release();
}

absl::Status CheckReadable(const std::string& path) {
  Descriptor file(open(path.c_str(), kOpenToRead));
  if (file.get() < 0) return CannotRead(path, errno);
  AUTOCFG_ASSIGN_OR_RETURN(const auto mode, ModeOf(path, file.get()));
  return S_ISREG(mode) ? absl::OkStatus() : NotRegular(path);
}

absl::Status CheckWritable(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("an empty file name; name a file to write");
  if (path == "-") {
    return absl::InvalidArgumentError(
        "- is no file; give /dev/stdout for standard output, or ./- for a file of that name");
  }
  const WriteTarget target = Resolve(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(target.path, ignored)) {
    return absl::InvalidArgumentError(fmt::format("{}: is a directory; name a file to write", path));
  }
  if (target.is_special) return CheckSpecial(path, target);
  base::AtomicFile file(target.path);  // never finished, so nothing is replaced
  std::error_code failed = file.Open();
  if (!failed) failed = file.Append("autocfg\n");
  if (!failed) failed = file.Sync();
  return failed ? CannotWrite(path, failed.value()) : absl::OkStatus();
}

absl::Status CheckOtherFile(const FileOfOption& written, const std::vector<FileOfOption>& others) {
  if (written.path.empty()) return absl::OkStatus();
  const WriteTarget target = Resolve(written.path);
  if (target.is_special) return absl::OkStatus();
  for (const FileOfOption& other : others) {
    std::error_code none;  // one of them does not exist
    if (!other.path.empty() && std::filesystem::equivalent(target.path, other.path, none) && !none)
      return AlsoTheFileOf(written, other);
  }
  return absl::OkStatus();
}

absl::Status CheckBothWritten(const FileOfOption& written, const FileOfOption& also_written) {
  if (written.path.empty() || also_written.path.empty()) return absl::OkStatus();
  const WriteTarget one = Resolve(written.path), other = Resolve(also_written.path);
  if (one.is_special || other.is_special) return absl::OkStatus();
  std::error_code ignored;
  const auto place = [&](const WriteTarget& target) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(target.path, ignored), ignored);
  };
  return place(one) == place(other) ? AlsoTheFileOf(written, also_written) : absl::OkStatus();
}

absl::Status CheckWritableDirectory(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    if (!fs::is_directory(path, ignored))
      return absl::InvalidArgumentError(fmt::format("{}: is not a directory; give one", path));
    return access(path.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus() : CannotWrite(path, errno);
  }
  if (fs::is_symlink(path, ignored)) {
    return absl::NotFoundError(
        fmt::format("{}: is a link to {}, which does not exist; give another directory", path,
                    fs::read_symlink(path, ignored).string()));
  }
  const fs::path whole = fs::absolute(path, ignored).lexically_normal();
  const fs::path parent = (whole.has_filename() ? whole : whole.parent_path()).parent_path();
  if (!fs::is_directory(parent, ignored)) {
    return absl::NotFoundError(
        fmt::format("{}: cannot be created, because {} is not a directory; give one in an existing directory",
                    path, parent.string()));
  }
  return access(parent.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus() : CannotWrite(path, errno);
}

absl::Status CheckReadableDirectory(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is {}; give an existing directory", path,
                    std::filesystem::exists(path, error) ? "not a directory" : "not there"));
  }
  return access(path.c_str(), R_OK | X_OK) == 0 ? absl::OkStatus() : CannotRead(path, errno);
}

absl::Status CheckRegularName(const std::string& path) {
  if (path != "-") return absl::OkStatus();
  return absl::InvalidArgumentError(
      "- is no file, and a regular file is needed; name one, or give ./- for a file of that name");
}

absl::StatusOr<std::string> ReplaceablePath(const std::string& path) {
  AUTOCFG_RETURN_IF_ERROR(CheckRegularName(path));
  AUTOCFG_RETURN_IF_ERROR(CheckWritable(path));
  const WriteTarget target = Resolve(path);
  if (target.is_special) return NotRegular(path);
  return target.path;
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  const WriteTarget target = Resolve(path);
  if (target.is_special) return WriteSpecial(path, target, content);
  base::AtomicFile file(target.path);
  std::error_code error = file.Open();
  if (!error) error = file.Append(content);
  if (error) return CannotWrite(path, error.value());
  error = file.Finish();
  return error ? FileError(path, "cannot be replaced", error.value(), /*writes=*/true) : absl::OkStatus();
}

}  // namespace autocfg::cli
