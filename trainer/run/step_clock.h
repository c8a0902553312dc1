// What a step's time is read from: the machine's steady clock, or the virtual clock of a paced rank. One
// rank, one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "kernels/paced/paced_clock.h"
#include "search/schedule/action.h"

namespace autocfg {

struct TimeSpan {
  double start_s = 0;
  double end_s = 0;
};

class StepClock {
 public:
  virtual ~StepClock() = default;

  // A step begins; to be called after the barrier that all ranks leave together.
  virtual void Restart() = 0;

  // Seconds since the step began.
  virtual double Seconds() const = 0;

  // When the step began, on a clock that the ranks of one machine share.
  virtual double OriginSeconds() const = 0;

  // Whether a barrier moves it to the latest of the ranks and takes none of its time.
  virtual bool IsVirtual() const = 0;

  // Called around a forward or backward: when its first op can be issued, and when its last one has been.
  virtual void BeginCompute() {}
  virtual void EndCompute() {}

  // When the n-th operation of a communication lane in this step ran, where the clock keeps that; otherwise
  // the times are those at which the rank issued it and noticed its end.
  virtual std::optional<TimeSpan> Transfer(Lane lane, std::size_t n) const = 0;
};

std::unique_ptr<StepClock> CreateSteadyClock();

// Owns `clock`, which lives as long as the result.
std::unique_ptr<StepClock> CreatePacedStepClock(std::unique_ptr<PacedClock> clock);

}  // namespace autocfg
