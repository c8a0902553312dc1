// When the collectives of a step ran, by the clock of a device that runs them beside computes. One rank, one
// thread.
#pragma once

#include <vector>

#include "kernels/device.h"

namespace autocfg::trainer {

// In seconds since the step began.
struct TimeSpan {
  double start_s = 0;
  double end_s = 0;
};

class CollectiveTimes {
 public:
  virtual ~CollectiveTimes() = default;

  // Records the collectives that are issued from now on, in every group of the world; the ranks of a group
  // call it between the same two of its collectives. Waits for the work on `stream`. Throws DeviceError.
  virtual void Begin(Stream& stream) = 0;

  // Ends the record, at the same place on all ranks of a group.
  virtual void End() = 0;

  // Returns when each of the collectives ran: from when the last of its ranks had reached it to when this
  // rank's part had ended. `origin_s`: when the step began, in seconds of the steady clock. `late_s`: how
  // much later than the first rank that was. Collective over each group; blocks until the collectives have
  // ended. Requires Begin and End. Throws CommError and DeviceError.
  virtual std::vector<TimeSpan> Spans(double origin_s, double late_s) = 0;
};

}  // namespace autocfg::trainer
