// The state of a search: the plans that fit, the strategy's candidates, their measurements, and the trials of
// the round. SearchLoop (search_loop.h) owns it and makes the decisions; ranking.h and unmeasured.h read it.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/lazy_times.h"
#include "search/planner/recalibration/recalibration.h"
#include "search/planner/search_loop.h"
#include "search/planner/shortlist.h"
#include "search/planner/strategy/strategy.h"
#include "search/space/search_space.h"

namespace autocfg {

struct SearchState {
  // A measurement that is too fast to be believed without another one.
  struct Doubted {
    std::int64_t repeat = 0;
    Sample sample;
  };
  // Data about a candidate that a strategy does not see.
  struct Record {
    std::size_t feasible = 0;   // index among the feasible plans
    Prediction raw;             // before recalibration
    Prediction announced = {};  // of its trial: as it was when the trial was drawn
    std::vector<double> steps;
    std::size_t first_steps = 0;  // steps of its first trial
    double first_device_s = 0;
    int lost = 0;
    std::vector<std::int64_t> counted = {};  // the numbers of the trials that its steps are of
    std::optional<Doubted> doubted = {};     // waits for another trial
    int doubts = 0;                          // trials that were doubted
    double noise_sigma = 0;                  // relative standard error of its measured time
  };

  Problem problem;
  SearchOptions options;
  SearchSpace space;
  PlanningWatch watch;
  std::unique_ptr<CostModel> costs;   // by `known` or nominal times before the calibration
  std::optional<KnownOpTimes> known;  // with which `feasible` was found, before the calibration
  bool calibrated = false;
  SearchPhase phase = SearchPhase::kCalibrating;
  SearchCounts counts;
  FeasiblePlans feasible;
  TimedPlans timed;
  LazyTimes times;  // of the plans that are not timed, in searches that measure nothing
  Recalibration recalibration{1, {}};
  std::vector<CandidatePlan> candidates;  // the strategy's choices; empty if nothing is measured
  std::vector<Record> records;            // by candidate
  std::unique_ptr<Strategy> strategy;
  // Trials of the current round not yet handed out, as (candidate, repeat).
  std::vector<std::pair<std::size_t, std::int64_t>> drawn;
  std::set<std::pair<std::size_t, std::int64_t>> asked;  // handed out, not observed yet

  absl::StatusOr<FeasiblePlans> FindFeasible(CostModel& cost_model);
  // Sets `counts` from the feasible plans.
  void CountFeasible();

  // Returns the prediction of a feasible plan before recalibration; before the calibration, only its memory.
  Prediction RawPrediction(std::size_t i) const;
  // Returns true if the plan has more ranks than can be measured together.
  bool IsSlice(const ParallelPlan& plan) const;

  // Adds the hidden communication to a candidate's predictions, once, unless its program is too large to be
  // timed action by action (CheckProgramSize).
  void PredictHiddenComm(std::size_t candidate);

  // Fills in the plans that the strategy chooses from. Requires `calibrated`.
  void MakeCandidates();
  // Corrects the candidates' predictions by all measurements.
  void Recalibrate();
  // Draws the next round if no trial is outstanding.
  void Advance();

  // Returns the number of the candidate's next trial.
  std::int64_t NextRepeat(std::size_t i) const { return candidates[i].repeats + records[i].doubts; }

  // Record the outcome of a candidate's trial. Measured: stores the sample, or doubts it. Fail: the candidate
  // is not asked for again. Lost: a lost or cancelled trial, which may be asked for again a few times.
  void Measured(std::size_t i, std::int64_t repeat, const Sample& sample);
  void Fail(std::size_t i, const std::string& reason);
  void Lost(std::size_t i, const std::string& reason);

  // Adds the candidate that recomputes as little more as possible, if the depth is derived.
  void Deepen(std::size_t i);

 private:
  // Returns the time that the candidate's next trial is expected to measure: as before, else as predicted.
  double ExpectedSeconds(std::size_t i) const;
  // Asks for no more trials of the candidate. A measured one stays in the ranking, any other is out.
  void GiveUp(std::size_t i, const std::string& reason);
  void Accept(std::size_t i, std::int64_t repeat, const Sample& sample);
};

// See SearchLoop::Ranking. Times of plans become known.
std::vector<RankedPlan> RankPlans(SearchState& s, std::size_t limit);

// See SearchLoop::MemoryFront. Requires a calibrated search.
std::vector<RankedPlan> MemoryFront(const SearchState& s, std::size_t limit);

// See SearchLoop::UnmeasuredDeviceSeconds.
double UnmeasuredDeviceSeconds(const SearchState& s);

}  // namespace autocfg
