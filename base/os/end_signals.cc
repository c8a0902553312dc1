#include "base/os/end_signals.h"

#include <semaphore.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "fmt/format.h"

namespace autocfg::base {
namespace {

// A signal handler can reach only globals. All but the atomics are written before a handler can run.
struct State {
  std::atomic<bool> requested{false};
  std::atomic<int> first{0};  // the first signal; 0: none came
  sem_t came{};
  std::array<std::atomic<std::int64_t>, NSIG> first_ns{};  // by signal; 0: none came
  std::array<char, 256> line{};
  std::size_t line_bytes = 0;
  unsigned limit_s = 0;
  int exit_status = 0;
  std::atomic<bool> limit_started{false};
};
State state;
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

constexpr std::int64_t kSameNs = 500'000'000;

std::int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void EndNow(int) {
  // The process ends now, whether the line can be written or not.
  const ssize_t written = ::write(STDERR_FILENO, state.line.data(), state.line_bytes);
  (void)written;
  ::_exit(state.exit_status);
}

void Handle(int signal) {
  const int error = errno;
  std::atomic<std::int64_t>& first_ns = state.first_ns[static_cast<std::size_t>(signal)];
  const std::int64_t now = NowNs();
  std::int64_t none = 0;
  if (!first_ns.compare_exchange_strong(none, now) && now - first_ns >= kSameNs) {
    std::signal(signal, SIG_DFL);
    raise(signal);  // takes effect when this function returns
  } else {
    if (state.limit_s > 0 && !state.limit_started.exchange(true)) ::alarm(state.limit_s);
    int unset = 0;
    state.first.compare_exchange_strong(unset, signal);
    state.requested = true;
    sem_post(&state.came);
  }
  errno = error;
}

void Install(int signal, void (*handler)(int), const sigset_t& blocked) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  action.sa_mask = blocked;
  sigaction(signal, &action, nullptr);
}

}  // namespace

EndSignals::EndSignals(const Options& options) {
  state.requested = false;
  state.first = 0;
  sem_init(&state.came, /*pshared=*/0, 0);
  const std::string line = fmt::format("{}: a part of it did not end within {} s; exiting without it\n",
                                       options.program, options.limit_s);
  state.line_bytes = std::min(line.size(), state.line.size());
  std::copy_n(line.begin(), state.line_bytes, state.line.begin());
  state.limit_s = static_cast<unsigned>(options.limit_s);
  state.exit_status = options.exit_status;

  sigset_t all;
  sigemptyset(&all);
  for (const int signal : kSignals) sigaddset(&all, signal);
  sigset_t unblocked;
  sigemptyset(&unblocked);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    const int signal = kSignals[i];
    state.first_ns[static_cast<std::size_t>(signal)] = 0;
    sigaction(signal, nullptr, &previous_[i]);
    if (signal == SIGHUP && (!options.hangup || previous_[i].sa_handler == SIG_IGN)) continue;
    Install(signal, Handle, all);
    sigaddset(&unblocked, signal);
  }
  sigset_t none;
  sigemptyset(&none);
  Install(SIGALRM, EndNow, none);
  sigaddset(&unblocked, SIGALRM);
  // The process that started this one may have left them blocked.
  pthread_sigmask(SIG_UNBLOCK, &unblocked, nullptr);
}

EndSignals::~EndSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
}

void EndSignals::Ignore() {
  for (const int signal : kSignals) std::signal(signal, SIG_IGN);
}

std::string_view EndSignals::Name(int signal) {
  return signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "SIGHUP";
}

const std::atomic<bool>& EndSignals::flag() const { return state.requested; }

int EndSignals::Wait() const {
  while (sem_wait(&state.came) != 0) {  // interrupted by another signal
  }
  return state.first;
}

void EndSignals::StopWaiting() const { sem_post(&state.came); }

}  // namespace autocfg::base
