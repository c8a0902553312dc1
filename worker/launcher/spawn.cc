#include "worker/launcher/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fmt/format.h"
#include "worker/supervisor/orders.h"

extern char** environ;

namespace autocfg::worker {
namespace {

class Actions {
 public:
  Actions() { posix_spawn_file_actions_init(&actions_); }
  ~Actions() { posix_spawn_file_actions_destroy(&actions_); }

  // Returns 0, or the error of the first action that cannot be added.
  int Fill(int socket) {
    int error = posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0) {
      error = posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    }
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions_, socket, kSupervisorSocket);
    if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(&actions_, kSupervisorSocket + 1);
    return error;
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class Attributes {
 public:
  Attributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

}  // namespace

absl::StatusOr<pid_t> Spawn(const std::string& path, int socket) {
  std::string program = path;
  char* argv[] = {program.data(), nullptr};
  Actions actions;
  const Attributes attributes;
  pid_t pid = -1;
  int error = actions.Fill(socket);
  if (error == 0) error = ::posix_spawn(&pid, path.c_str(), actions.get(), attributes.get(), argv, environ);
  if (error != 0) return SystemError(fmt::format("cannot start {}", path), error);
  return pid;
}

base::UniqueFd AboveStandard(base::UniqueFd fd) {
  return base::UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, std::max(kSupervisorSocket, kRankSocket) + 1));
}

absl::Status SystemError(const std::string& what, int error) {
  const std::string message = fmt::format("{}: {}", what, std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == ENOEXEC) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

}  // namespace autocfg::worker
