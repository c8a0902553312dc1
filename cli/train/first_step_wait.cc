#include "cli/train/first_step_wait.h"

#include <utility>

#include "base/text.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace autocfg::cli {

FirstStepWait::FirstStepWait(bool speaks, std::string what, std::chrono::milliseconds every) {
  if (speaks) thread_ = std::thread([this, what = std::move(what), every] { Speak(what, every); });
}

void FirstStepWait::Speak(const std::string& what, std::chrono::milliseconds every) {
  std::unique_lock lock(mutex_);
  for (std::int64_t waits = 1; !changed_.wait_for(lock, every, [this] { return ended_; }); ++waits) {
    Note(fmt::format("{}no step has ended after {}", waits == 1 ? what + ": " : "",
                     base::SecondsText(std::chrono::duration<double>(every * waits).count())));
  }
}

void FirstStepWait::End() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace autocfg::cli
