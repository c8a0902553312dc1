// A synthetic device for tests: op times from a roofline and alpha-beta links, so that expected results are
// known.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "search/blocks/layer.h"
#include "search/cost/op_times/op_times.h"
#include "search/cost/plan_op_times.h"
#include "search/ops/op_desc.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/legality.h"
#include "search/plan/model_spec.h"
#include "search/plan/workload.h"

namespace autocfg::test {

struct SyntheticDevice {
  double flops_per_s = 5e10;
  double bytes_per_s = 1e10;
  double op_s = 1e-6;
  double link_alpha_s = 5e-6;
  double link_bytes_per_s = 2e9;

  double Seconds(const OpDesc& op) const {
    if (IsCommunication(op.kind)) {
      const double bytes = static_cast<double>(op.dims[0] * SizeOf(op.dtype));
      const double g = op.group_size;
      if (op.kind == OpKind::kSend || op.kind == OpKind::kRecv)
        return link_alpha_s + bytes / link_bytes_per_s;
      return link_alpha_s * 2 * std::log2(g) + 2 * (g - 1) / g * bytes / link_bytes_per_s;
    }
    return op_s + std::max(Flops(op) / flops_per_s, MinBytes(op) / bytes_per_s);
  }

  OpTimes Measure(const std::vector<OpDesc>& ops) const {
    std::vector<OpTime> times;
    for (const OpDesc& op : ops) times.push_back({op, Seconds(op)});
    return OpTimes(times);
  }
};

inline ModelSpec SmallGpt(std::int64_t layers = 8, std::int64_t hidden = 128, std::int64_t heads = 8,
                          std::int64_t vocab = 1024) {
  ModelSpec model;
  model.name = "small";
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.vocab = vocab;
  model.max_seq_len = 64;
  FillDefaults(model);
  return model;
}

inline Workload Fp32(std::int64_t global_batch, std::int64_t seq_len) {
  return {.global_batch = global_batch, .seq_len = seq_len, .precision = *ParsePrecision("fp32")};
}

inline ClusterSpec LocalRanks(std::int64_t ranks, double ranks_per_core = 1,
                              std::int64_t memory_bytes = std::int64_t{1} << 40) {
  ClusterSpec cluster;
  cluster.name = "local";
  cluster.local = true;
  NodeGroup group;
  group.device.name = "cpu";
  group.device.memory_bytes = memory_bytes;
  group.gpus_per_node = ranks;
  group.ranks_per_core = ranks_per_core;
  cluster.groups.push_back(group);
  return cluster;
}

// Returns every op of a step of the plan, on all ranks.
inline std::vector<OpDesc> AllOps(const ModelSpec& model, const Workload& workload,
                                  const ParallelPlan& plan) {
  return PlanOps({model, workload, plan});
}

}  // namespace autocfg::test
