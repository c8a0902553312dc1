// The source of a step's time: the machine's steady clock, or the virtual clock of a paced rank. One rank,
// one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/paced/paced_device.h"
#include "search/schedule/action.h"
#include "trainer/comm/collective_times.h"

namespace autocfg::trainer {

class StepClock {
 public:
  virtual ~StepClock() = default;

  // Starts a step. Call it after the barrier that all ranks leave together.
  virtual void Restart() = 0;

  // Returns the seconds since the step began.
  virtual double Seconds() const = 0;

  // Returns the start of the step on a clock that the ranks of one machine share.
  virtual double OriginSeconds() const = 0;

  // Returns true if a barrier advances the clock to the latest rank and itself takes no time.
  virtual bool IsVirtual() const = 0;

  // Called around a forward or backward: when its first op can be issued, and when its last op has been
  // issued.
  virtual void BeginCompute() {}
  virtual void EndCompute() {}

  // Returns when the n-th operation of a communication lane ran in this step, if the clock records that.
  // Otherwise the only known times are those at which the rank issued it and observed its end.
  virtual std::optional<TimeSpan> Transfer(Lane lane, std::size_t n) const = 0;

  // Returns when each collective of the step ran so far, those over the tensor group included, if the clock
  // records that; otherwise nothing.
  virtual std::vector<TimeSpan> Collectives() const = 0;
};

std::unique_ptr<StepClock> CreateSteadyClock();

// Takes ownership of `clock` and keeps it as long as the result exists.
std::unique_ptr<StepClock> CreatePacedStepClock(std::unique_ptr<PacedClock> clock);

}  // namespace autocfg::trainer
