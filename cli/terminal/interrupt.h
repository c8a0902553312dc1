// Turns Ctrl-C and similar signals into a flag that a verb polls. Signals belong to the process: at most one
// Interrupt exists at a time.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>

namespace autocfg::cli {

class Interrupt {
 public:
  enum class Limit : std::uint8_t { kSeconds, kNone };
  // The first SIGINT, SIGTERM or SIGHUP sets the flag. A second signal of the same kind ends the process at
  // once, as by default; but not one within half a second of the first, since some programs signal a process
  // and then its group (timeout of coreutils). So does the time limit that starts with the first
  // (base/os/end_limit.h), unless the verb has work to finish that takes as long as it takes. A SIGHUP that
  // the process was started to ignore (nohup) stays ignored.
  explicit Interrupt(Limit limit = Limit::kSeconds);
  ~Interrupt();  // restores the previous handlers
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>& flag() const;
  bool requested() const { return flag(); }

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> previous_{};
};

}  // namespace autocfg::cli
