#include "cli/input/paths.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/fnv1a.h"
#include "base/os/host.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

bool IsPlain(const std::string& path) {
  return std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-';
  });
}

// Returns a directory for the socket that other users can neither write to nor replace.
absl::StatusOr<std::string> RuntimeDirectory() {
  const std::string runtime = base::Environment("XDG_RUNTIME_DIR");
  if (!runtime.empty() && runtime.size() < 60 && IsPlain(runtime) &&
      access(runtime.c_str(), W_OK | X_OK) == 0)
    return runtime;
  const std::string dir = fmt::format("/tmp/autocfg-{}", getuid());
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(fmt::format("{}: cannot be created for the server's socket ({})", dir,
                                              std::generic_category().message(errno)));
  }
  struct stat info {};
  if (lstat(dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() ||
      (info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        fmt::format("{}: is not a private directory of this user; remove it or set XDG_RUNTIME_DIR", dir));
  }
  return dir;
}

}  // namespace

absl::StatusOr<std::string> SocketPath(const std::string& database) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(database, error);
  if (!error) path = std::filesystem::weakly_canonical(path, error);
  if (error) return absl::InvalidArgumentError(fmt::format("{}: {}", database, error.message()));
  const std::string beside = path.string() + ".sock";
  if (beside.size() < sizeof(sockaddr_un::sun_path) && IsPlain(beside)) return beside;
  const auto dir = RuntimeDirectory();
  if (!dir.ok()) return dir.status();
  return fmt::format("{}/autocfg-{:016x}.sock", *dir, base::Fnv1a(path.string()));
}

std::string ShellWord(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/._-=,:+@%").find(static_cast<char>(c)) != std::string::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string ProgramName(const std::string& argv0) {
  if (argv0.find('/') == std::string::npos) return "autocfg";  // found on PATH by the shell
  const std::string path = base::Environment("PATH");
  for (std::size_t start = 0; start < path.size();) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    const std::filesystem::path found = std::filesystem::path(path.substr(start, end - start)) / "autocfg";
    std::error_code error;
    if (access(found.c_str(), X_OK) == 0) {  // the file that a shell would start
      return std::filesystem::equivalent(found, argv0, error) && !error ? "autocfg" : ShellWord(argv0);
    }
    start = end + 1;
  }
  return ShellWord(argv0);
}

bool IsListening(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool ok = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return ok;
}

}  // namespace autocfg::cli
