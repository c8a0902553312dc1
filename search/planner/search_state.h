// What a search knows, and what it waits for: the plans that fit, those of them that its strategy chooses
// from, what was measured of these, and the trials of the round. SearchLoop (search_loop.h) owns it and
// decides; ranking.h and unmeasured.h read it. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/recalibration.h"
#include "search/planner/search_loop.h"
#include "search/planner/shortlist.h"
#include "search/planner/strategy.h"
#include "search/space/search_space.h"

namespace autocfg {

struct SearchState {
  // What is kept about a candidate beside what a strategy sees.
  struct Record {
    std::size_t feasible = 0;  // index among the feasible plans
    Prediction raw;            // before recalibration
    std::vector<double> steps;
    std::size_t first_steps = 0;  // steps of its first trial
    double first_device_s = 0;
    int lost = 0;
    double noise_sigma = 0;  // relative standard error of its measured time
  };

  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  SearchOptions options;
  SearchSpace space;
  std::unique_ptr<CostModel> costs;  // by nominal times before the calibration
  bool calibrated = false;
  SearchPhase phase = SearchPhase::kCalibrating;
  SearchCounts counts;
  FeasiblePlans feasible;
  SimulatedPlans simulated;
  Recalibration recalibration{1, {}};
  std::vector<CandidatePlan> candidates;  // that the strategy chooses from; none where nothing is measured
  std::vector<Record> records;            // by candidate
  std::unique_ptr<Strategy> strategy;
  // Of the current round, not handed out yet: candidate, repeat.
  std::vector<std::pair<std::size_t, std::int64_t>> drawn;
  std::set<std::pair<std::size_t, std::int64_t>> asked;  // handed out, not observed yet

  FeasiblePlans FindFeasible(CostModel& cost_model, std::int64_t device_overhead_bytes) const;
  // Makes `counts` those of the feasible plans.
  void CountFeasible();

  // Of a feasible plan, before recalibration: its memory alone before the calibration.
  Prediction RawPrediction(std::size_t i) const;
  // Whether it has more ranks than can be measured together.
  bool IsSlice(const ParallelPlan& plan) const;

  // The plans that the strategy is to choose from. Requires: calibrated.
  void MakeCandidates();
  // Corrects the predictions of the candidates by all that was measured.
  void Recalibrate();
  // Draws the next round where nothing is outstanding.
  void Advance();

  // What came of a trial of a candidate: measured; failed, and not to be asked for again; lost or cancelled,
  // so that it may be asked for again, a few times.
  void Measured(std::size_t i, const Sample& sample);
  void Fail(std::size_t i, const std::string& reason);
  void Lost(std::size_t i, const std::string& reason);
};

}  // namespace autocfg
