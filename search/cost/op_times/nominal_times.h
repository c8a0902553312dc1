// Op times of a nominal, unmeasured device. Before calibration, a search uses them to order the ops to time
// and to balance split=auto. Thread-safe.
#pragma once

#include "search/cost/op_times/op_time_model.h"

namespace autocfg {

// A roofline model of a modest processor and link: 50 GFLOP/s, 10 GB/s, 2 GB/s between ranks. Always finite.
class NominalTimes final : public OpTimeModel {
 public:
  double Seconds(const OpDesc& op) const;
  double Seconds(const OpDesc& op, const ParallelPlan&) const override { return Seconds(op); }
  bool KnowsEveryOp() const override { return true; }
};

}  // namespace autocfg
