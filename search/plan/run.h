// A run of training: what is trained, on what, and how. Plain values.
#pragma once

#include "absl/status/status.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/run_view.h"
#include "search/plan/workload.h"

namespace autocfg {

// What a search answers: which plan trains this model with this workload fastest on this cluster.
struct Problem {
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;  // with the profile of the engine that runs on it

  // The plan must outlive the result.
  RunView With(const ParallelPlan& plan) const { return {model, workload, plan}; }
  bool operator==(const Problem&) const = default;
};

// A problem with a plan.
struct PlannedRun : Problem {
  ParallelPlan plan;

  bool operator==(const PlannedRun&) const = default;
};

// InvalidArgument, naming the field: as of the parts.
absl::Status Validate(const Problem& problem);

}  // namespace autocfg
