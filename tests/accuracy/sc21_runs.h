// The ten models of Narayanan et al. 2021 ("Efficient Large-Scale Language Model Training on GPU Clusters
// Using Megatron-LM", SC21), table 1: their training configurations and speeds.
#pragma once

#include <array>
#include <cstdint>

#include "fmt/format.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/hardware_flops.h"
#include "search/plan/legality.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/text/cluster_json.h"
#include "search/text/engines.h"
#include "search/text/model_json.h"

namespace autocfg::test {

// Sizes and TFLOP/s of table 1, on A100 80 GB, eight per node, in fp16 with all activations recomputed.
// Microbatches and virtual stages are those of the authors' script for that table (NVIDIA/Megatron-LM,
// examples/sc21/run_table_1.sh: layers over pp over --num-layers-per-virtual-pipeline-stage).
struct PublishedRun {
  const char* model;  // the preset
  std::int64_t gpus;
  std::int64_t tp;
  std::int64_t pp;
  std::int64_t micro_batch;
  std::int64_t global_batch;
  std::int64_t virtual_stages;
  double tflops_per_gpu;  // by the paper's equation 3, recomputation included
};

inline constexpr std::array<PublishedRun, 10> kSc21Runs = {{
    {"megatron-1.7b", 32, 1, 1, 16, 512, 1, 137},
    {"megatron-3.6b", 64, 2, 1, 16, 512, 1, 138},
    {"megatron-7.5b", 128, 4, 1, 16, 512, 1, 142},
    {"megatron-18b", 256, 8, 1, 8, 1024, 1, 135},
    {"megatron-39b", 512, 8, 2, 4, 1536, 1, 138},
    {"megatron-76b", 1024, 8, 4, 2, 1792, 3, 140},
    {"megatron-145b", 1536, 8, 8, 2, 2304, 2, 148},
    {"megatron-310b", 1920, 8, 16, 1, 2160, 2, 155},
    {"megatron-530b", 2520, 8, 35, 1, 2520, 3, 163},
    {"megatron-1000b", 3072, 8, 64, 1, 3072, 1, 163},
}};

// Converts a run to the project's types.
inline ModelSpec ModelOf(const PublishedRun& run) { return *ModelPreset(run.model); }

inline Workload WorkloadOf(const PublishedRun& run) {
  return {.global_batch = run.global_batch,
          .seq_len = ModelOf(run).max_seq_len,
          .precision = *ParsePrecision("fp16")};
}

// Returns the preset's cluster, with the training step of Megatron-LM.
inline ClusterSpec ClusterOf(const PublishedRun& run) {
  ClusterSpec cluster = *PresetCluster(fmt::format("a100-80gb-sxm:{}x8", run.gpus / 8));
  cluster.engine = *EngineNamed("megatron");
  return cluster;
}

// Returns the canonical plan: scatter_gather is set if a pipeline has tensor groups.
inline ParallelPlan PlanOf(const PublishedRun& run) {
  return Canonical(
      {{.tp = run.tp, .pp = run.pp, .dp = run.gpus / run.tp / run.pp},
       {.micro_batch = run.micro_batch, .recompute = Recompute::kFull, .attention = Attention::kUnfused},
       {.virtual_stages = run.virtual_stages,
        .schedule = run.virtual_stages > 1 ? Schedule::kInterleaved : Schedule::kOneFOneB},
       {.scatter_gather = true}});
}

// Returns the seconds of a step, from the published rate and the FLOPs of equation 3.
inline double PublishedSeconds(const PublishedRun& run) {
  const Workload workload = WorkloadOf(run);
  const double tokens = static_cast<double>(workload.global_batch * workload.seq_len);
  const double flops = PublishedHardwareFlops(ModelOf(run), tokens, static_cast<double>(workload.seq_len));
  return flops / static_cast<double>(run.gpus) / (run.tflops_per_gpu * 1e12);
}

}  // namespace autocfg::test
