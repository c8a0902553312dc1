// Chooses which plans to measure next, given predictions and what has been measured. Deterministic; not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

inline constexpr std::size_t kNoCandidate = static_cast<std::size_t>(-1);

// One feasible plan as a strategy sees it.
struct CandidatePlan {
  ParallelPlan plan;
  Prediction predicted;              // recalibrated, with its 90% interval
  std::optional<double> measured_s;  // median, once measured; of a slice: the whole step as it corrects it
  double measured_ci95_s = 0;
  std::size_t samples = 0;  // steps measured
  int repeats = 0;          // trials measured
  bool failed = false;      // measured and failed, or did not fit after all: not to be asked for again
  bool repeatable = true;   // false: its measurement stands, but it is not to be measured again
  bool slice = false;       // measured as a slice (slice.h)
  // The candidate that does the same but recomputes less, the one next to it, where that fits.
  std::size_t recomputes_less = kNoCandidate;
};

// Whether a candidate recomputes more than one that does the same otherwise and may still run: it is never
// the faster of the two.
bool IsDominated(const std::vector<CandidatePlan>& candidates, std::size_t i);

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Indices into `candidates` of what to measure in the next round, best chance first; a measured candidate's
  // index asks for a repeat. Empty: enough is known.
  virtual std::vector<std::size_t> Suggest(const std::vector<CandidatePlan>& candidates) = 0;

  // Trials likely still to be suggested, at most.
  virtual std::int64_t TrialsLeft(const std::vector<CandidatePlan>& candidates) const = 0;

  // Plans that it would still measure for the first time if nothing but its own judgement ended it: no
  // max_trials, no time budget.
  virtual std::int64_t PlansLeft(const std::vector<CandidatePlan>& candidates) const = 0;
};

}  // namespace autocfg
