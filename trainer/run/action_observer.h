// Told by the runner when a rank's actions begin and end: what a trace is made of. Called on the rank's
// thread.
#pragma once

#include <cstddef>

namespace autocfg {

class ActionObserver {
 public:
  virtual ~ActionObserver() = default;

  // `action` is the index in the rank's program. Each action of a step gets one OnStart and later one OnEnd,
  // all before RunStep returns. Compute and reductions: from when all that they wait for is complete until
  // their results are there (the stream is empty); one at a time. Sends and receives: from issue until they
  // are complete and have been waited for, by the first action that needs them or else at the end of the
  // step.
  virtual void OnStart(std::size_t action) = 0;
  virtual void OnEnd(std::size_t action) = 0;
};

}  // namespace autocfg
