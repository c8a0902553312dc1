#include "cli/input/service_options.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "CLI/CLI.hpp"
#include "base/fnv1a.h"
#include "base/os/host.h"
#include "base/status_macros.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/rpc/token_file.h"

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
    return absl::UnavailableError(
        fmt::format("{}: cannot be created for the server's socket ({}); set XDG_RUNTIME_DIR", dir,
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

void AddServiceOptions(CLI::App* verb, ServiceOptions& options) {
  verb->add_option("--coordinator", options.coordinator, "an autocfg-server: HOST:PORT, or unix:PATH");
  verb->add_option("--db", options.database, "the database (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  AddEndpointOptions(*verb, options.access);
}

absl::Status CheckServiceOptions(const ServiceOptions& options) {
  if (options.remote() && !options.database.empty()) {
    return absl::InvalidArgumentError(
        "--coordinator and --db exclude each other, since a coordinator has its own database; leave one of "
        "them out");
  }
  if (options.remote()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto endpoint, EndpointOf(options));
    if (const std::string warning = TokenFileWarning(endpoint.token_file); !warning.empty()) Note(warning);
    return absl::OkStatus();
  }
  if (options.access.insecure) {
    return absl::InvalidArgumentError(
        "--insecure is for a --coordinator on another machine; give that, or leave it out");
  }
  if (options.access.secured()) {
    return absl::InvalidArgumentError(
        "--tls, --tls-ca, --tls-cert, --tls-key and --token-file are for a --coordinator; give that, or "
        "leave "
        "them out");
  }
  return CheckDatabaseOption(options.database);
}

absl::Status CheckDatabaseOption(const std::string& option) {
  // Its directory is made for the default database alone: a mistyped name must not begin a new one.
  const std::filesystem::path parent = std::filesystem::path(option).parent_path();
  std::error_code ignored;
  if (!parent.empty() && !std::filesystem::is_directory(parent, ignored)) {
    return absl::InvalidArgumentError(
        fmt::format("--db: {}: {} is not a directory; make it, or name another", option, parent.string()));
  }
  return absl::OkStatus();
}

absl::Status CheckDatabaseExists(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return absl::OkStatus();
  if (error) {
    return absl::PermissionDeniedError(
        fmt::format("{}: cannot be examined ({}); name another database", path, error.message()));
  }
  return absl::NotFoundError(fmt::format("{}: no such database; name one that a search has created", path));
}

absl::StatusOr<std::string> ExistingDatabase(const std::string& option) {
  AUTOCFG_RETURN_IF_ERROR(CheckDatabaseOption(option));
  auto path = server::DatabasePath(option);
  if (!path.ok()) return path;
  AUTOCFG_RETURN_IF_ERROR(CheckDatabaseExists(*path));
  return path;
}

absl::StatusOr<Endpoint> EndpointOf(const ServiceOptions& options) {
  return EndpointFor(options.coordinator, options.access);
}

std::vector<FileOfOption> FilesOf(const ServiceOptions& options) {
  const EndpointOptions& access = options.access;
  return {{"--db", options.database},
          {"--tls-ca", access.files.authorities},
          {"--tls-cert", access.files.certificate},
          {"--tls-key", access.files.key},
          {"--token-file", access.token_file}};
}

std::string AsWritten(const ServiceOptions& options) {
  if (options.remote()) {
    const EndpointOptions& access = options.access;
    std::string text = fmt::format(" --coordinator {}", ShellWord(options.coordinator));
    if (access.insecure) text += " --insecure";
    if (access.tls) text += " --tls";
    for (const auto& [option, value] :
         {std::pair{"--tls-ca", &access.files.authorities},
          std::pair{"--tls-cert", &access.files.certificate}, std::pair{"--tls-key", &access.files.key},
          std::pair{"--token-file", &access.token_file}}) {
      if (!value->empty()) text += fmt::format(" {} {}", option, ShellWord(*value));
    }
    return text;
  }
  return options.database.empty() ? "" : fmt::format(" --db {}", ShellWord(options.database));
}

absl::StatusOr<std::string> SocketPath(const std::string& database) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(database, error);
  if (!error) path = std::filesystem::weakly_canonical(path, error);
  if (error)
    return absl::InvalidArgumentError(fmt::format(
        "{}: the path cannot be resolved ({}); give another database", database, error.message()));
  const std::string beside = path.string() + ".sock";
  if (beside.size() < sizeof(sockaddr_un::sun_path) && IsPlain(beside)) return beside;
  AUTOCFG_ASSIGN_OR_RETURN(const auto dir, RuntimeDirectory());
  return fmt::format("{}/autocfg-{:016x}.sock", dir, base::Fnv1a(path.string()));
}

absl::StatusOr<std::string> PrivateSocketPath() {
  AUTOCFG_ASSIGN_OR_RETURN(const auto dir, RuntimeDirectory());
  return fmt::format("{}/autocfg-{}.sock", dir, base::RandomId());
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
