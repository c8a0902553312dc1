// Converts a step time to tokens and floating-point operations per second. Pure, thread-safe.
#pragma once

#include <optional>

#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

struct Throughput {
  double tokens_per_s = 0;                  // of the whole plan
  double tokens_per_s_per_gpu = 0;          // this and the rest: per rank of the plan
  double model_flops_per_s_per_gpu = 0;     // ModelFlops: without recomputation
  double hardware_flops_per_s_per_gpu = 0;  // HardwareFlops: with recomputation
  std::optional<double> mfu;  // model FLOPs over the device's peak; empty if the peak is unknown
};

// Returns the rates of a step of `step_time_s` seconds; all zero if that is not positive. Requires a legal
// plan and a cluster with a node group. The peak is that of the first group.
Throughput ThroughputOf(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                        const ParallelPlan& plan, double step_time_s);

}  // namespace autocfg
