// How much of the tensor communication chunks could hide, and how much they hide by prediction, for one
// microbatch of a GPT of GPT-3 175B's layers, 8 of them, at tp=8.
//
// usage: autocfg_chunks_bench CLUSTER MICRO_BATCH. Prints one JSON object: "sums_s", the tensor communication
// of a step without chunks; by number of chunks "hidden_s", the communication that runs beside computes,
// "possible_s", what could, and "less_s" over "whole_s".
// - In "possible_s", all sums of a product's chunks but the last run beside all of its chunks but the first,
//   without any loss.
// - "whole_s" is the same of products and sums that are as fast in c chunks as whole: (c-1)/c of the shorter
//   of both. "less_s" is the communication that the step with chunks waits for less. A chunk's sum has its
//   own latency, which counts against it here.
// Computes are no slower beside collectives, as on the paced device. That chunks are slower products is not
// part of it: overlap.py compares whole steps.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "nlohmann/json.hpp"
#include "search/cost/cost_model.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/op_sum.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

ModelSpec Gpt() {
  ModelSpec model;
  model.name = "gpt-8-layers";
  model.layers = 8;
  model.hidden = 12288;
  model.heads = 96;
  model.vocab = 51200;
  model.max_seq_len = 2048;
  FillDefaults(model);
  return model;
}

std::vector<OpDesc> OpsOf(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                          ActionKind kind) {
  return ActionOps({model, workload, plan}, 0, Action{.kind = kind, .stage = 0, .microbatch = 0});
}

// Returns the seconds that a product and the sum after it have in common, over all such pairs of a step.
double CommonSeconds(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                     const OpTimeModel& times) {
  double common_s = 0;
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
    const std::vector<OpDesc> ops = OpsOf(model, workload, plan, kind);
    for (std::size_t i = 1; i < ops.size(); ++i) {
      if (ops[i].group == CommGroup::kTensor && ops[i - 1].kind == OpKind::kMatmul)
        common_s += std::min(times.Seconds(ops[i - 1], plan), times.Seconds(ops[i], plan));
    }
  }
  return common_s;
}

// Returns the seconds of sums that could run beside other chunks of their products.
double PossibleSeconds(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                       const OpTimeModel& times) {
  double possible_s = 0;
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
    const OpSum sum = SumOps(plan, OpsOf(model, workload, plan, kind),
                             [&](const OpDesc& op) { return times.Seconds(op, plan); });
    for (const ChunkedProduct& chunked : sum.chunked) {
      double products_s = 0, sums_s = 0;
      for (std::size_t i = 1; i < chunked.reductions.size(); ++i) {
        products_s += chunked.products_s[i];
        sums_s += times.Seconds(chunked.reductions[i - 1], plan);
      }
      possible_s += std::min(products_s, sums_s);
    }
  }
  return possible_s;
}

int Main(const char* cluster_text, std::int64_t micro_batch) {
  const ModelSpec model = Gpt();
  const Workload workload{
      .global_batch = micro_batch, .seq_len = 2048, .precision = ParsePrecision("bf16").value()};
  auto cluster = PresetCluster(cluster_text);
  if (cluster.ok()) {
    for (NodeGroup& group : cluster->groups) group.device.efficiency.overlap_contention = 0;
  }
  const auto times = cluster.ok() ? ClusterOpTimes::Create(*cluster, workload.precision) : cluster.status();
  if (!times.ok()) {
    std::cerr << "autocfg_chunks_bench: " << times.status() << "\n";
    return 1;
  }
  CostModel costs({model, workload, *cluster}, *times);
  ParallelPlan plan{{.tp = 8}, {.micro_batch = micro_batch}};
  const double common_s = CommonSeconds(model, workload, plan, **times);
  const double sums_s = costs.Predict(plan).breakdown.tp_comm;
  nlohmann::json answer = {{"sums_s", sums_s}};
  for (const std::int64_t chunks : {2, 4, 8}) {
    plan.tp_overlap = chunks;
    const double parts = static_cast<double>(chunks);
    answer[std::to_string(chunks)] = {{"possible_s", PossibleSeconds(model, workload, plan, **times)},
                                      {"hidden_s", costs.HiddenComm(plan)},
                                      {"whole_s", common_s * (parts - 1) / parts},
                                      {"less_s", sums_s - costs.Predict(plan).breakdown.tp_comm}};
  }
  std::cout << answer.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace autocfg

int main(int argc, char** argv) {
  const std::int64_t micro_batch = argc == 3 ? std::atoi(argv[2]) : 0;
  if (micro_batch < 1 || micro_batch > 64) {
    std::cerr << "usage: autocfg_chunks_bench CLUSTER MICRO_BATCH (1 to 64)\n";
    return 2;
  }
  return autocfg::Main(argv[1], micro_batch);
}
