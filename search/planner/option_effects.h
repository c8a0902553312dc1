// What it costs to give up one option of a plan: the answer to "which option matters most". Pure, except that
// the cost model's caches grow.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/plan/plan_options.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/lazy_times.h"

namespace autocfg {

struct OptionEffect {
  const PlanOption* option = nullptr;
  ParallelPlan instead;  // the fastest plan that has another value of the option; every other option is free
  double costs = 0;      // (time of `instead`) / (time of the plan) - 1
  // The fastest plan that differs in this option alone, and in what must change with it: a size of the mesh
  // takes another one along, so that the plan uses all ranks; a new number of stages takes a new split; vpp
  // and schedule follow each other. Empty if no such plan is legal and fits. Never faster than `instead`.
  std::optional<ParallelPlan> alone = {};
  bool alone_is_legal = false;     // some such plan is legal, whether or not it fits
  double costs_alone = 0;          // as `costs`, of `alone`
  bool only_this_changed = false;  // `instead` is `alone`
  std::string because;             // one sentence
};

// Of `costs` and `costs_alone`, the sentence says both if they differ by more than this.
inline constexpr double kMuchMoreAlone = 0.01;

// Corrects predictions by measurements: a plan's factor, which makes of the prediction what was measured if
// the plan was. Requires definite splits.
using CorrectionOf = std::function<double(const ParallelPlan&)>;

// Returns the effect of each option that has another value in the space, in the order of the table, without
// sentences. Leaves out options that have nothing to act on in the plan or in `instead`
// (PlanOption::redundant; vpp without the interleaved schedule): there, other options make the difference.
// Times are estimates (CostModel::Estimate), corrected. `feasible`: the plans of the space, with their times,
// or with bounds and `times`; its values are those that are tried. `best`: one of these plans.
std::vector<OptionEffect> EstimateEffects(CostModel& costs, FeasiblePlans& feasible, const ParallelPlan& best,
                                          const CorrectionOf& correction, const LazyTimes& times = {});

// Returns the effect that costs the most, by CostModel::Predict, with its sentence. Nothing if no option's
// other values make the step longer. `measured`: plans that were; the fastest with another value may be one.
std::optional<OptionEffect> MattersMost(CostModel& costs, FeasiblePlans& feasible, const ParallelPlan& best,
                                        const CorrectionOf& correction, const LazyTimes& times = {},
                                        std::span<const ParallelPlan> measured = {});

// Returns what takes longer in `instead` than in `best`: the part of the step that grows most, and a fact of
// the placement that explains it, if there is one: "tensor communication takes 1.20 s more; its group of 16
// leaves the node". Empty if no part grows.
std::string WhatGrows(const ClusterSpec& cluster, const Workload& workload, const ParallelPlan& best,
                      const Breakdown& best_parts, const ParallelPlan& instead,
                      const Breakdown& instead_parts);

}  // namespace autocfg
