// The steady state of a walked pipeline: once it is full, its ranks make the same moves over and over, each
// time later by the same time. What they do next follows from where they stand alone (walk_rank.h). So when
// all of them stand as they stood before, only all later by the same time, they will until one of them comes
// to its last forward, and that many repetitions need not be walked.
//
// Where they stand is compared, not when they ended what: ranks that drain free those behind them of waiting,
// which changes the last ends of ranks that are still full, however long the pipeline was steady before.
//
// While a rank is a little faster than one that will hold it up, each has a step of its own: the pipeline is
// steady only after that, and walked until then.
#pragma once

#include <cstdint>
#include <vector>

#include "search/cost/walk_rank.h"

namespace autocfg {

class SteadyState {
 public:
  // `total`: forwards of each rank; as many backwards.
  explicit SteadyState(std::int64_t total) : total_(total) {}

  // To be called now and then with where the ranks stand, best when they have just come through all stages.
  // Where they stood so before, moves them on by as many repetitions as do not reach the end. The result
  // is that of the whole walk but for rounding.
  void Skip(std::vector<WalkRank>& ranks);

 private:
  struct Repetition {
    double seconds = 0;
    std::int64_t times = 0;  // how often the ranks can make it again
  };
  // From `then` to `now`; 0 times: they do not stand the same, or come to the end.
  Repetition Find(const std::vector<WalkRank>& then, const std::vector<WalkRank>& now) const;

  std::int64_t total_;
  std::vector<std::vector<WalkRank>> stood_;  // at the last calls, in turns
  std::size_t next_ = 0;
};

}  // namespace autocfg
