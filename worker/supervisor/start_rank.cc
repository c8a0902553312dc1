#include "worker/supervisor/start_rank.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "worker/supervisor/rank_environment.h"

extern char** environ;

namespace autocfg::worker {
namespace {

constexpr int kCannotStart = 127;  // exit status of a child that could not become the program

// execve does not change the strings; its type is that of C.
std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The arrays that execve takes. The command must outlive this object.
struct ExecArrays {
  explicit ExecArrays(const RankCommand& command)
      : variables(RankEnvironment(environ, command.environment, command.foreign)),
        arguments(Pointers(command.arguments)),
        environment(Pointers(variables)) {}

  const std::vector<std::string> variables;
  const std::vector<char*> arguments;
  const std::vector<char*> environment;
};

// Sets the soft limit of the size of a core to 0. Returns 0, or -1 with errno set.
int LimitCore() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return -1;
  limit.rlim_cur = 0;
  return ::setrlimit(RLIMIT_CORE, &limit);
}

// In the child. Returns only if a call fails, with errno set.
void BecomeRank(const RankCommand& command, const ExecArrays& arrays, pid_t supervisor, pid_t group,
                int socket, int log) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  if (::getppid() != supervisor) ::_exit(kCannotStart);  // it died before that
  if (::setpgid(0, group) != 0) return;
  sigset_t none;
  sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return;
  if (::dup2(log, STDERR_FILENO) < 0) return;
  if (::dup2(command.foreign ? log : socket, command.foreign ? STDOUT_FILENO : kRankSocket) < 0) return;
  if (LimitCore() != 0) return;
  if (!command.directory.empty() && ::chdir(command.directory.c_str()) != 0) return;
  ::execve(arrays.arguments.front(), arrays.arguments.data(), arrays.environment.data());
}

}  // namespace

StartedRank StartRank(const RankCommand& command, pid_t group, const base::UniqueFd& socket,
                      const base::UniqueFd& log) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return {.error = errno};
  const base::UniqueFd failure(pipe[0]);
  base::UniqueFd in_child(pipe[1]);
  const ExecArrays arrays(command);
  const pid_t supervisor = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return {.error = errno};
  if (pid == 0) {
    BecomeRank(command, arrays, supervisor, group, socket.get(), log.get());
    const int error = errno;
    // If the write fails, the supervisor sees the exit status instead.
    const auto written = ::write(in_child.get(), &error, sizeof error);
    ::_exit(written == sizeof error ? kCannotStart : kCannotStart - 1);
  }
  in_child.Reset();
  int error = 0;
  ssize_t n = 0;
  while ((n = ::read(failure.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n != sizeof error) return {.pid = pid};  // the pipe closed when the program started
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {.error = error};
}

}  // namespace autocfg::worker
