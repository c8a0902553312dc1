// The search: which plans to measure next, and when there is evidence enough. A state machine without clock,
// threads or I/O: whoever drives it (server/study_runner) carries out what Next() asks for and tells it what
// came out. Observing the same outcomes in the same order leads to the same decisions, so a stored study is
// resumed by replaying it. Not thread-safe.
//
// The course: enumerate; predict memory; the driver calibrates, or hands over the model of a described
// cluster; closed form for all, the timer for the shortlist; rounds of trials, predictions recalibrated
// after each; then the plans that are statistically tied with the best are repeated in turns. What is shown,
// measured and recommended is complete: split=auto is made definite with nominal times before the
// calibration, and again with the real ones at it.
//
// Spaces may hold a million plans: of most of them only a few dozen bytes are kept. A strategy chooses among
// the kMostCandidates fastest by prediction (an exhaustive one among all).
//
// A plan with more ranks than can be measured together is measured as a slice (slice.h): its own prediction
// is corrected by what the slice took more or less than predicted, the others' through the recalibration; all
// of them are ranked by prediction, since a slice is no step time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/planner/slice.h"
#include "search/planner/strategy.h"
#include "search/space/search_space.h"

namespace autocfg {

struct SearchOptions {
  bool exhaustive = false;  // every feasible plan is measured
  bool predict_only = false;
  std::int64_t max_trials = 0;  // 0: the planner's own bound
  // that can be run together: plans with more are measured as slices; 0: any
  std::int64_t measurable_ranks = 0;
  std::uint64_t seed = 1;
};

inline constexpr std::size_t kMostCandidates = 20'000;

// What a trial measured. Seconds of each timed step.
struct Sample {
  std::vector<double> step_time_s;
  double device_s = 0;
  bool slice = false;  // of one rank alone; as the request says
};

enum class TrialOutcome : std::uint8_t { kMeasured, kOutOfMemory, kFailed, kTimedOut, kCancelled, kLost };

struct TrialRequest {
  ParallelPlan plan;
  std::int64_t repeat = 0;         // 0: the first measurement of this plan
  Prediction predicted;            // as of now
  std::optional<SliceRank> slice;  // the one rank to run alone, where the plan has more than can be run
};

struct SearchCounts {
  std::int64_t enumerated = 0;
  std::int64_t illegal = 0;
  std::int64_t out_of_memory = 0;
  std::int64_t predicted = 0;
  std::int64_t evaluated = 0;
  std::int64_t measured = 0;  // slices among them
  std::int64_t slices = 0;
  std::map<std::string, std::int64_t> rejected;  // by reason; includes "out_of_memory"
};

struct RankedPlan {
  ParallelPlan plan;
  Prediction predicted;                      // where a slice was measured: as it corrects it
  std::optional<double> median_step_time_s;  // measured, over all repeats; never of a slice
  std::optional<double> ci95_s;              // half width, of the median
  std::vector<double> step_time_s;           // all measured steps
  // a slice of it was measured: step_time_s and ci95_s are the slice's
  bool slice = false;
  std::optional<double> slice_step_time_s;  // median
};

enum class SearchPhase : std::uint8_t { kCalibrating, kMeasuring, kConfirming, kDone };
std::string_view Name(SearchPhase phase);

struct SearchState;  // search_state.h

class SearchLoop {
 public:
  // Enumerates and predicts memory. InvalidArgument and Unimplemented as the parts say; where nothing is to
  // be run, what can be predicted alone is allowed.
  static absl::StatusOr<SearchLoop> Create(const ModelSpec& model, const Workload& workload,
                                           const ClusterSpec& cluster, const AxisValues& space,
                                           const SearchOptions& options);

  SearchPhase phase() const;
  const SearchCounts& counts() const;

  // The distinct ops of the feasible plans, those first that take most time: what a calibration job is to
  // time. Of the plans with the same layout and micro batch one stands for all: they issue the same ops, but
  // for the sizes of whole regions.
  std::vector<OpDesc> CalibrationOps() const;

  // Predicts times. Requires: phase is kCalibrating. Plans whose memory with `device_overhead_bytes` (in
  // place of the overhead that the cluster's description has) exceeds the capacity are counted as out of
  // memory from here on. InvalidArgument where a time is not positive, or missing for some plan; nothing has
  // changed then.
  absl::Status SetCalibration(std::shared_ptr<const OpTimeModel> times, std::int64_t device_overhead_bytes);
  absl::Status SetCalibration(const OpTimes& times, std::int64_t device_overhead_bytes);

  // The next trials, best chance first; those asked for and not yet observed are not asked for again. Empty
  // while outcomes are awaited that the next decision needs, and when the phase is kDone.
  std::vector<TrialRequest> Next();

  // A plan that does not fit, fails or takes too long is not asked for again and not recommended, also where
  // it ran before: a plan that ends one run of two is none to start a production run from. What was lost or
  // cancelled is not the plan's fault: it is asked for again, twice at most, and a plan that was measured
  // before keeps its measurement. InvalidArgument if the trial was never asked for.
  absl::Status Observe(const ParallelPlan& plan, std::int64_t repeat, TrialOutcome outcome,
                       const Sample& sample);

  // No new trials are asked for; what is known decides (time budget, cancel).
  void Stop();

  // All feasible plans, best first: those measured as a whole by their median; then, by what is predicted
  // now, those of which a slice was measured (it corrects their own prediction, and through the recalibration
  // the others') and those of which nothing was; last what is no candidate. Equally fast (to rounding): less
  // memory first, then the default schedule.
  std::vector<RankedPlan> Ranking(std::size_t limit) const;

  // Predicted device seconds of measuring, as the trials were, every feasible plan that has not been: what an
  // exhaustive search would take beyond what this one took. 0 before any trial was measured.
  double UnmeasuredDeviceSeconds() const;

  // Of all legal plans, those that do not fit included, the one that takes the least memory.
  std::optional<ParallelPlan> Smallest() const;

  // Trials that are likely still to come, at most.
  std::int64_t TrialsLeft() const;

  // Of a search that has ended: plans that it would have measured, had max_trials or Stop not ended it. 0
  // where nothing is measured.
  std::int64_t PlansLeft() const;

 private:
  explicit SearchLoop(std::unique_ptr<SearchState> state);
  std::unique_ptr<SearchState> state_;

 public:
  SearchLoop(SearchLoop&&) noexcept;
  SearchLoop& operator=(SearchLoop&&) noexcept;
  ~SearchLoop();
};

}  // namespace autocfg
