// What the ops of a run, the order of its ranks' actions and the memory follow from. A cluster decides only
// how long they take.
#pragma once

#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// By reference, as a parameter: valid while what it was made of is.
struct RunView {
  RunView(const ModelSpec& m, const Workload& w, const ParallelPlan& p) : model(m), workload(w), plan(p) {}
  // Views anything with these three members, such as a PlannedRun.
  template <typename Run>
  requires requires(const Run& run) { RunView(run.model, run.workload, run.plan); }
  RunView(const Run& run)
      : RunView(run.model, run.workload, run.plan) {}  // NOLINT(google-explicit-constructor)

  const ModelSpec& model;
  const Workload& workload;
  const ParallelPlan& plan;
};

}  // namespace autocfg
