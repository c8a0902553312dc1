// Chooses the plans to measure next from predictions and measurements. Deterministic; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

inline constexpr std::size_t kNoCandidate = static_cast<std::size_t>(-1);

// A feasible plan as a strategy sees it.
struct CandidatePlan {
  ParallelPlan plan;
  Prediction predicted;  // recalibrated, with its 90% interval
  // Step time by measurement, once there is one: the median of the timed steps. Of a slice, an estimate: the
  // predicted step plus what the slice took longer.
  std::optional<double> measured_s;
  // Half width of the 95% interval of the median of what was timed. Of a slice, the slice's own: not of
  // measured_s.
  double measured_ci95_s = 0;
  std::size_t samples = 0;  // steps measured
  int repeats = 0;          // trials measured
  bool failed = false;      // failed, or did not fit when run; not to be asked for again
  bool repeatable = true;   // false: its measurement is valid, but must not be repeated
  bool slice = false;       // measured as a slice (slice.h)
  // A candidate that does a part of the same work (FeasiblePlan::less_work), if there is one.
  std::size_t less_work = kNoCandidate;
};

// Returns true if another candidate is the same, does less work and may still run: candidate `i` is never
// the faster of the two.
bool IsDominated(const std::vector<CandidatePlan>& candidates, std::size_t i);

// Says how likely unmeasured candidates are to take less than some time.
class ChanceModel {
 public:
  virtual ~ChanceModel() = default;
  // Returns, for each k from 0 to their number, at most how likely any of the candidates `of` from the k-th
  // on is to take less than `seconds`; 0 for the last, which is of none. Descending.
  virtual std::vector<double> ChanceOfAnyFrom(const std::vector<CandidatePlan>& candidates,
                                              const std::vector<std::size_t>& of, double seconds) const = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Returns the indices into `candidates` to measure in the next round, most promising first. The index of a
  // measured candidate asks for a repeat. Empty if the evidence suffices.
  virtual std::vector<std::size_t> Suggest(const std::vector<CandidatePlan>& candidates,
                                           const ChanceModel& chances) = 0;

  // Returns an upper estimate of the trials still to be suggested.
  virtual std::int64_t TrialsLeft(const std::vector<CandidatePlan>& candidates,
                                  const ChanceModel& chances) const = 0;

  // Returns the number of plans that the strategy would still measure for the first time, if neither
  // max_trials nor a time budget ended it.
  virtual std::int64_t PlansLeft(const std::vector<CandidatePlan>& candidates,
                                 const ChanceModel& chances) const = 0;

  // Returns at most how likely an unmeasured plan is more than 1% faster than the fastest measured one; 1 if
  // none is measured.
  virtual double ChanceOfBetter(const std::vector<CandidatePlan>& candidates,
                                const ChanceModel& chances) const = 0;
};

}  // namespace autocfg
