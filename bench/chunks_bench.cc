// How much of the tensor communication chunks could hide, and how much they hide by prediction, for one
// microbatch of a GPT of GPT-3 175B's layers, 8 of them, at tp=8.
//
// usage: autocfg_chunks_bench CLUSTER MICRO_BATCH. Prints one JSON object: "sums_s", the tensor communication
// of a step without chunks; by number of chunks c "possible_s" and "hidden_s". A product and the sum after it
// that run side by side without any loss, in c chunks of which the last sum has nothing beside it, hide
// (c-1)/c of the shorter of both; "possible_s" is the sum over all products. "hidden_s" is the tensor
// communication that the step with chunks does not have. That chunks are slower products is not part of it:
// overlap.py compares whole steps.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "nlohmann/json.hpp"
#include "search/cost/cost_model.h"
#include "search/cost/op_lists/action_ops.h"
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

// Returns the seconds that a product and the sum after it have in common, over all such pairs of a step.
double CommonSeconds(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                     const OpTimeModel& times) {
  double common_s = 0;
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
    const std::vector<OpDesc> ops =
        ActionOps(model, workload, plan, 0, Action{.kind = kind, .stage = 0, .microbatch = 0});
    for (std::size_t i = 1; i < ops.size(); ++i) {
      if (ops[i].group == CommGroup::kTensor && ops[i - 1].kind == OpKind::kMatmul)
        common_s += std::min(times.Seconds(ops[i - 1], plan), times.Seconds(ops[i], plan));
    }
  }
  return common_s;
}

int Main(const char* cluster_text, std::int64_t micro_batch) {
  const ModelSpec model = Gpt();
  const Workload workload{
      .global_batch = micro_batch, .seq_len = 2048, .precision = ParsePrecision("bf16").value()};
  const auto cluster = PresetCluster(cluster_text);
  const auto times = cluster.ok() ? ClusterOpTimes::Create(*cluster, workload.precision) : cluster.status();
  if (!times.ok()) {
    std::cerr << "autocfg_chunks_bench: " << times.status() << "\n";
    return 1;
  }
  CostModel costs(model, workload, *cluster, *times);
  ParallelPlan plan{{.tp = 8}, {.micro_batch = micro_batch}};
  const double common_s = CommonSeconds(model, workload, plan, **times);
  const double sums_s = costs.Predict(plan).breakdown.tp_comm;
  nlohmann::json answer = {{"sums_s", sums_s}};
  for (const std::int64_t chunks : {2, 4, 8}) {
    plan.tp_overlap = chunks;
    answer[std::to_string(chunks)] = {
        {"possible_s", common_s * static_cast<double>(chunks - 1) / static_cast<double>(chunks)},
        {"hidden_s", sums_s - costs.Predict(plan).breakdown.tp_comm}};
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
