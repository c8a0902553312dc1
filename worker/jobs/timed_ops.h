// Op times of a calibration whose ranks are still at work: merged as soon as all ranks have timed an op. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "autocfg/v1/trainer.pb.h"

namespace autocfg::worker {

class TimedOps {
 public:
  // Of all ranks of the job. Each times the same ops in the same order (trainer/calibrate/calibrate.h).
  explicit TimedOps(std::size_t ranks) : ranks_(ranks) {}

  // Takes what a rank has timed since its last progress. Returns what all ranks have timed now and had not
  // before, merged as the ends of the ranks are (MergeCalibrations). Returns nothing more once ranks
  // disagree about the order.
  v1::CalibrateResult Add(std::size_t rank, const v1::Progress& progress);

 private:
  struct Rank {
    std::deque<v1::OpTime> waiting;  // for other ranks
    std::int64_t device_overhead_bytes = 0;
  };

  std::vector<Rank> ranks_;
  bool disagree_ = false;
};

}  // namespace autocfg::worker
