// Turns Ctrl-C and similar signals into a flag that a verb polls.
#pragma once

#include <cstdint>

#include "base/os/end_signals.h"
#include "cli/terminal/console.h"

namespace autocfg::cli {

class Interrupt : public base::EndSignals {
 public:
  // With kNone, the verb has work to finish that takes as long as it takes.
  enum class Limit : std::uint8_t { kSeconds, kNone };
  explicit Interrupt(Limit limit = Limit::kSeconds)
      : EndSignals({.program = "autocfg",
                    .limit_s = limit == Limit::kSeconds ? 10 : 0,
                    .exit_status = kExitInterrupted,
                    .hangup = true}) {}
};

}  // namespace autocfg::cli
