#include "cli/terminal/interrupt.h"

#include <ctime>

#include "base/os/end_limit.h"
#include "cli/terminal/console.h"

namespace autocfg::cli {
namespace {

// A signal handler can reach only globals, and signals belong to the process. This is the only global state
// of that kind.
std::atomic<bool> interrupted{false};
std::atomic<bool> limited{true};
static_assert(std::atomic<bool>::is_always_lock_free);

// By signal: when the first one came; 0: none did.
std::array<std::atomic<std::int64_t>, NSIG> first_ns{};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

constexpr int kEndLimitSeconds = 10;
constexpr std::int64_t kSameNs = 500'000'000;

std::int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void Handle(int signal) {
  std::atomic<std::int64_t>& first = first_ns[static_cast<std::size_t>(signal)];
  const std::int64_t now = NowNs();
  std::int64_t none = 0;
  if (!first.compare_exchange_strong(none, now) && now - first >= kSameNs) {
    std::signal(signal, SIG_DFL);
    raise(signal);  // takes effect when this function returns
    return;
  }
  if (limited) base::StartEndLimit();
  interrupted = true;
}

}  // namespace

Interrupt::Interrupt(Limit limit) {
  interrupted = false;
  limited = limit == Limit::kSeconds;
  base::PrepareEndLimit({.program = "autocfg", .seconds = kEndLimitSeconds, .exit_status = kExitInterrupted});
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    const int signal = kSignals[i];
    first_ns[static_cast<std::size_t>(signal)] = 0;
    sigaction(signal, nullptr, &previous_[i]);
    if (signal == SIGHUP && previous_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = Handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
}

const std::atomic<bool>& Interrupt::flag() const { return interrupted; }

}  // namespace autocfg::cli
