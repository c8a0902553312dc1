#include "base/os/end_limit.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "fmt/format.h"

namespace autocfg::base {
namespace {

// A signal handler can reach only globals. Written before the handler can run.
struct Prepared {
  std::array<char, 256> line{};
  std::size_t length = 0;
  unsigned seconds = 0;  // 0: not prepared
  int exit_status = 0;
};
Prepared prepared;
std::atomic<bool> started{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void End(int) {
  // The process ends now, whether the line can be written or not.
  const ssize_t written = ::write(STDERR_FILENO, prepared.line.data(), prepared.length);
  (void)written;
  ::_exit(prepared.exit_status);
}

}  // namespace

void PrepareEndLimit(const EndLimit& limit) {
  const std::string line = fmt::format("{}: a part of it did not end within {} s; exiting without it\n",
                                       limit.program, limit.seconds);
  prepared.length = std::min(line.size(), prepared.line.size());
  std::copy_n(line.begin(), prepared.length, prepared.line.begin());
  prepared.seconds = static_cast<unsigned>(limit.seconds);
  prepared.exit_status = limit.exit_status;
  struct sigaction action {};
  action.sa_handler = End;
  sigemptyset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
  // The process that started this one may have left it blocked.
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
}

void StartEndLimit() {
  if (!started.exchange(true)) ::alarm(prepared.seconds);
}

}  // namespace autocfg::base
