#include "worker/launcher/spawn_rank.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/os/cpus.h"
#include "fmt/format.h"

extern char** environ;

namespace autocfg::worker {
namespace {

// Descriptor of the trainer's socket (trainer/program/launcher_channel.h).
constexpr int kChildSocket = 3;

absl::Status SystemError(const std::string& what, int error) {
  const std::string message = fmt::format("{}: {}", what, std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == ENOEXEC) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

// Duplicates `fd` above the descriptors that the child gets, even if this program's standard descriptors are
// closed.
base::UniqueFd AboveStandard(base::UniqueFd fd) {
  return base::UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kChildSocket + 1));
}

// Returns the name in NAME=value.
std::string_view NameOf(std::string_view variable) { return variable.substr(0, variable.find('=')); }

class Actions {
 public:
  Actions() { posix_spawn_file_actions_init(&actions_); }
  ~Actions() { posix_spawn_file_actions_destroy(&actions_); }

  // Returns 0, or the error of the first action that cannot be added.
  int Fill(int socket, int log) {
    int error = posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0) {
      error = posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    }
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions_, log, STDERR_FILENO);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions_, socket, kChildSocket);
    if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(&actions_, kChildSocket + 1);
    return error;
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class Attributes {
 public:
  explicit Attributes(pid_t group) {
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, group);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

}  // namespace

absl::StatusOr<SpawnedRank> SpawnRank(const std::string& path, const std::vector<int>& cores, pid_t group,
                                      const std::vector<std::string>& environment) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return SystemError("cannot make a socket pair for a rank", errno);
  }
  SpawnedRank rank;
  rank.socket = base::UniqueFd(pair[0]);
  base::UniqueFd child_socket = AboveStandard(base::UniqueFd(pair[1]));
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return SystemError("cannot make a pipe for a rank's messages", errno);
  rank.log = base::UniqueFd(pipe[0]);
  base::UniqueFd child_log = AboveStandard(base::UniqueFd(pipe[1]));
  if (!child_socket.ok() || !child_log.ok() || ::fcntl(rank.log.get(), F_SETFL, O_NONBLOCK) != 0) {
    return SystemError("cannot prepare a rank's descriptors", errno);
  }

  std::string program = path;
  std::string launcher_fd = fmt::format("--launcher-fd={}", kChildSocket);
  std::string cpu_list = "--cpu-list=" + base::CpuListText(cores);
  char* argv[] = {program.data(), launcher_fd.data(), cores.empty() ? nullptr : cpu_list.data(), nullptr};
  std::vector<std::string> added = environment;
  std::vector<char*> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    // With duplicate names, the program would find the first.
    const std::string_view name = NameOf(*variable);
    if (std::none_of(added.begin(), added.end(),
                     [name](const std::string& other) { return NameOf(other) == name; }))
      all.push_back(*variable);
  }
  for (std::string& variable : added) all.push_back(variable.data());
  all.push_back(nullptr);
  Actions actions;
  const Attributes attributes(group);
  int error = actions.Fill(child_socket.get(), child_log.get());
  if (error == 0) {
    error = ::posix_spawn(&rank.pid, path.c_str(), actions.get(), attributes.get(), argv, all.data());
  }
  if (error != 0) return SystemError(fmt::format("cannot start {}", path), error);
  return rank;
}

}  // namespace autocfg::worker
