// Observes the start and end of each action of a rank. Traces are built from it. Called on the rank's thread.
#pragma once

#include <cstddef>

namespace autocfg::trainer {

class ActionObserver {
 public:
  virtual ~ActionObserver() = default;

  // `action` is the index in the rank's program. Each action of a step gets one OnStart and later one OnEnd,
  // all before RunStep returns. A compute action or reduction spans from the completion of all its
  // dependencies to the availability of its results (the stream is empty); only one runs at a time. A send or
  // receive spans from its issue until it is complete and has been waited for: by the first action that needs
  // it, or else at the end of the step.
  virtual void OnStart(std::size_t action) = 0;
  virtual void OnEnd(std::size_t action) = 0;
};

}  // namespace autocfg::trainer
