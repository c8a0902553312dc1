// The search: decides which plans to measure next and when the evidence suffices. A state machine without
// clock, threads or I/O: its driver (server/studies/study_search.h) runs what Next() asks for and reports the
// outcomes. The same outcomes in the same order lead to the same decisions, so a stored study is resumed by
// replaying it. Not thread-safe.
//
// Steps: enumerate plans and predict their memory. The driver calibrates, or supplies the model of a
// described cluster. Predict all plans by the closed form and the shortlist by the timer; if nothing is to be
// measured, only the plans that may be in an answer, by lower bounds of the others (lazy_times.h). Run rounds
// of trials and recalibrate the predictions after each. Finally repeat, in turns, the plans that are
// statistically tied with the best. All plans shown, measured and recommended are complete: split=auto is
// resolved with nominal times before the calibration, and again with the calibrated times.
//
// Spaces may hold a million plans; for most of them only a few dozen bytes are kept. A strategy chooses among
// the kMostCandidates plans that are fastest by prediction (an exhaustive one among all plans).
//
// A plan with more ranks than can be measured together is measured as a slice (slice.h). The difference
// between the slice's measured and predicted time corrects the plan's own prediction, and the other plans'
// predictions through the recalibration. All of them are ranked by prediction, since a slice time is no step
// time.
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
#include "search/plan/run.h"
#include "search/planner/option_effects.h"
#include "search/planner/planning.h"
#include "search/planner/slice.h"
#include "search/planner/strategy/strategy.h"
#include "search/space/search_space.h"

namespace autocfg {

struct SearchOptions {
  bool exhaustive = false;  // measures every feasible plan
  bool predict_only = false;
  std::int64_t max_trials = 0;  // 0: the strategy's own bound
  // ranks that can run together; plans with more are measured as slices; 0: no limit
  std::int64_t measurable_ranks = 0;
  double memory_margin = 0;  // as of CostModel
  std::uint64_t seed = 1;
  PlanningBudget budget = {};
};

// Returns the space that a search with these options goes through. If the cluster's engine is a training
// framework that files are written for, only plans that it can express. InvalidArgument and Unimplemented: as
// of SearchSpace::Create.
absl::StatusOr<SearchSpace> PlannedSpace(const Problem& problem, const AxisValues& space,
                                         const SearchOptions& options);

inline constexpr std::size_t kMostCandidates = 20'000;

// Result of a trial. Times are seconds of each timed step.
struct Sample {
  std::vector<double> step_time_s;
  double device_s = 0;
  bool slice = false;  // measured on one rank alone, as the request says
};

// How a trial ended, as far as the search cares. A trial that was cancelled is not observed: it says nothing
// about its plan.
enum class TrialOutcome : std::uint8_t { kMeasured, kOutOfMemory, kFailed, kTimedOut, kLost };

struct TrialRequest {
  ParallelPlan plan;
  std::int64_t repeat = 0;                // 0: the first measurement of this plan
  Prediction predicted;                   // current prediction
  std::optional<SliceCoordinates> slice;  // the one rank to run, if the plan has too many ranks
  // The number of a trial of this plan that was too fast to be believed: other workers should run this one.
  std::optional<std::int64_t> doubted = {};
};

struct SearchCounts {
  std::int64_t enumerated = 0;
  std::int64_t illegal = 0;
  std::int64_t out_of_memory = 0;
  std::int64_t predicted = 0;
  // Plans of which legality, memory and time are known. Where nothing is measured, a lower bound of the time
  // suffices, if it rules the plan out of all answers (lazy_times.h).
  std::int64_t evaluated = 0;
  std::int64_t measured = 0;  // including slices
  std::int64_t slices = 0;
  // Plans that are out of the ranking, by reason: rules of legality; "out_of_memory", predicted; and, once
  // run, "measured_out_of_memory", "failed", "timed_out", "lost", "implausible".
  std::map<std::string, std::int64_t> rejected;
};

struct RankedPlan {
  ParallelPlan plan;
  Prediction predicted;                      // corrected by the slice, if one was measured
  std::optional<double> median_step_time_s;  // measured, over all repeats; never of a slice
  bool slice = false;                        // a slice was measured
  std::vector<std::int64_t> trials =
      {};  // the numbers (repeat) of the trials that count, without doubted ones
};

enum class SearchPhase : std::uint8_t { kCalibrating, kMeasuring, kConfirming, kDone };
std::string_view Name(SearchPhase phase);

struct SearchState;  // search_state.h

// Arguments of SetCalibration.
struct KnownOpTimes {
  std::shared_ptr<const OpTimeModel> times;
  std::int64_t device_overhead_bytes = 0;
};

class SearchLoop {
 public:
  // Enumerates the plans and predicts their memory. InvalidArgument and Unimplemented from the validation of
  // the inputs. If nothing is to be run, also accepts what can be predicted but not run. Cancelled once
  // `watch`, which is kept for SetCalibration, says no. `known`: the calibration to come, if it does not need
  // CalibrationOps; SetCalibration with the same one does not enumerate the plans again.
  static absl::StatusOr<SearchLoop> Create(const Problem& problem, const AxisValues& space,
                                           const SearchOptions& options, const PlanningWatch& watch = {},
                                           const std::optional<KnownOpTimes>& known = {});

  // Returns what the planning budget left out, as a sentence for users. Empty if it left out nothing.
  std::string LeftOut() const;

  SearchPhase phase() const;
  const SearchCounts& counts() const;

  // Returns the distinct ops of the feasible plans for a calibration job to time; those that take the most
  // time come first. Of the plans with the same layout and micro batch, one represents all: they issue the
  // same ops, except for the sizes of whole regions.
  std::vector<OpDesc> CalibrationOps() const;

  // Predicts times. Requires phase kCalibrating. From here on, plans count as out of memory if their memory
  // with `device_overhead_bytes` exceeds the capacity; this overhead replaces the one in the cluster's
  // description. InvalidArgument if a time is not positive, or missing for some plan; the state is then
  // unchanged. Cancelled once the watch says no; the search then has no plans and cannot go on.
  absl::Status SetCalibration(std::shared_ptr<const OpTimeModel> times, std::int64_t device_overhead_bytes);
  absl::Status SetCalibration(const OpTimes& times, std::int64_t device_overhead_bytes);

  // Returns the next trials, most promising first. Trials asked for and not yet observed are not repeated.
  // Empty while the next decision needs outstanding outcomes, and in phase kDone.
  std::vector<TrialRequest> Next();

  // Records a trial's outcome. A plan that does not fit, fails or times out is neither asked for again nor
  // recommended, even if it ran before: production runs need plans that run reliably. A lost trial is not the
  // plan's fault: it is asked for again, at most twice, and an earlier measurement of the plan is kept. A
  // first measurement that is less than a tenth of what is predicted counts only if another trial confirms
  // it; after three that do not agree, the plan is out. A later one that is less than a tenth of the earlier
  // ones does not count, and is repeated at most twice.
  // InvalidArgument if the trial was never asked for.
  absl::Status Observe(const ParallelPlan& plan, std::int64_t repeat, TrialOutcome outcome,
                       const Sample& sample);

  // Stops asking for trials, for a time budget or a cancellation. Results rest on what is known so far.
  void Stop();

  // Returns all feasible plans, best first, in three groups:
  //
  // 1. plans measured as a whole, by their median;
  // 2. the other candidates, by their current predictions; a measured slice corrects its plan's prediction,
  //    and the others' through the recalibration;
  // 3. plans that are not candidates.
  //
  // Equally fast plans (to rounding) are ordered by less memory, then by the default schedule.
  std::vector<RankedPlan> Ranking(std::size_t limit) const;

  // Returns the feasible plans that no other one beats in both step time and memory of the worst rank,
  // fastest first. Times are those of the ranking; plans that failed are left out. Of more than `limit`
  // plans, both ends and others between. Empty before the calibration.
  std::vector<RankedPlan> MemoryFront(std::size_t limit) const;

  // Returns the option of the best plan that costs the most to give up. Nothing before the calibration,
  // without a best plan, and if no option's other values make the step longer.
  std::optional<OptionEffect> MattersMost() const;

  // Returns the predicted device seconds of measuring every unmeasured feasible plan the way the trials were
  // measured: the extra cost of an exhaustive search. 0 before any trial was measured.
  double UnmeasuredDeviceSeconds() const;

  // Returns the legal plan that needs the least memory, even if it does not fit.
  std::optional<ParallelPlan> Smallest() const;

  // Returns an upper estimate of the trials still to come.
  std::int64_t TrialsLeft() const;

  // Returns the most that the chance can be, by the predictions, that an unmeasured candidate is more than 1%
  // faster than the fastest measured plan. Nothing before a plan is measured.
  std::optional<double> ChanceOfBetter() const;

  // For a search that has ended: returns the number of plans it would still have measured without max_trials
  // or Stop. 0 if nothing is measured.
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
