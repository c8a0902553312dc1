#include "cli/terminal/interrupt.h"

#include <csignal>

#include "base/os/end_limit.h"
#include "cli/terminal/console.h"

namespace autocfg::cli {
namespace {

// A signal handler can reach only globals, and signals belong to the process. This is the only global state
// of that kind.
std::atomic<bool> interrupted{false};
std::atomic<bool> limited{true};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

constexpr int kEndLimitSeconds = 10;

void Handle(int) {
  if (limited) base::StartEndLimit();
  interrupted = true;
}

}  // namespace

Interrupt::Interrupt(Limit limit) {
  interrupted = false;
  limited = limit == Limit::kSeconds;
  base::PrepareEndLimit({.program = "autocfg", .seconds = kEndLimitSeconds, .exit_status = kExitInterrupted});
  for (const int signal : kSignals) {
    struct sigaction action {};
    action.sa_handler = Handle;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

const std::atomic<bool>& Interrupt::flag() const { return interrupted; }

}  // namespace autocfg::cli
