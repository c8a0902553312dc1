// Turns Ctrl-C and similar signals into a flag that a verb polls. Signals belong to the process: at most one
// Interrupt exists at a time.
#pragma once

#include <atomic>
#include <cstdint>

namespace autocfg::cli {

class Interrupt {
 public:
  enum class Limit : std::uint8_t { kSeconds, kNone };
  // The first SIGINT, SIGTERM or SIGHUP sets the flag. A second signal of the same kind ends the process at
  // once, as by default. So does the time limit that starts with the first (base/os/end_limit.h), unless the
  // verb has work to finish that takes as long as it takes.
  explicit Interrupt(Limit limit = Limit::kSeconds);
  ~Interrupt();  // restores the previous handlers
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>& flag() const;
  bool requested() const { return flag(); }
};

}  // namespace autocfg::cli
