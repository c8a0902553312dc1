// Ctrl-C and its kin as a flag that a verb looks at. Signals belong to the whole process: at most one
// Interrupt exists at a time.
#pragma once

#include <atomic>

namespace autocfg {

class Interrupt {
 public:
  // From here on the first SIGINT, SIGTERM or SIGHUP sets the flag; a second one of the same kind ends the
  // process at once, as without us.
  Interrupt();
  ~Interrupt();  // as it was before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>& flag() const;
  bool requested() const { return flag(); }
};

}  // namespace autocfg
