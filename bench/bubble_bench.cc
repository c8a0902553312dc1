// Measures the pipeline bubbles of the real trainer on the paced device: the idle time of a step over its
// ideal time, for GPipe, 1F1B, ZB-H1 and interleaving. Compares them with the published values and with the
// simulator. The values are (p-1)/m (Huang et al. 2019; Narayanan et al. 2021, section 2.2.1), (p-1)/(v m)
// (section 2.2.2) and, for ZB-H1, (p-1)(f + b - w) / (m (f + b + w)) (Qi et al. 2023, section 2), where f, b
// and w are the times of a layer's forward, input gradient and weight gradients. Every rank is a thread. Time
// is virtual, so the figures are the same on every machine.
//
// usage: autocfg_bubble_bench. Prints one JSON object.
//
// The model is a GPT of 32 layers (hidden 4096, sequence 2048, micro batch 1, bf16) on A100s, one per node.
// Only the layers' matrix products and attention take time, so all stages are equal. Messages are first free,
// as in the published formula ("bubble"), then take the cluster's time ("with_messages"), and then overlap
// compute ("with_overlapping_messages", p2p_overlap=1). All are fractions of the ideal time: that of a rank's
// compute alone, which is longer than that of its messages ("messages": their time, as the same fraction).
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "search/blocks/layer.h"
#include "search/cost/cost_model.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/cost/plan_op_times.h"
#include "search/text/cluster_json.h"
#include "trainer/comm/rendezvous.h"
#include "trainer/run/train_loop.h"

namespace autocfg {
namespace {

ModelSpec Gpt() {
  ModelSpec model;
  model.name = "gpt-32-layers";
  model.layers = 32;
  model.hidden = 4096;
  model.heads = 32;
  model.vocab = 50257;
  model.max_seq_len = 2048;
  FillDefaults(model);
  return model;
}

Workload Batch(std::int64_t microbatches) {
  return {.global_batch = microbatches, .seq_len = 2048, .precision = ParsePrecision("bf16").value()};
}

// A cluster's times of the layers' matrix products and attention, and optionally of messages; all other ops
// are free. The first microbatch takes as long as the others, as in the papers.
class LayerTimes final : public OpTimeModel {
 public:
  LayerTimes(std::shared_ptr<const OpTimeModel> cluster, const std::vector<OpDesc>& layer, bool messages)
      : cluster_(std::move(cluster)), messages_(messages) {
    for (const OpDesc& op : layer) {
      if (Flops(op) > 0) counts_[op] = true;
    }
  }

  double Seconds(const OpDesc& op, const ParallelPlan& plan) const override {
    const bool message = op.kind == OpKind::kSend || op.kind == OpKind::kRecv;
    OpDesc counted = op;
    if (op.transpose_a) counted.accumulate = true;  // a gradient of weights
    return counts_.contains(counted) || (message && messages_) ? cluster_->Seconds(counted, plan) : 0;
  }

 private:
  const std::shared_ptr<const OpTimeModel> cluster_;
  const bool messages_;
  std::map<OpDesc, bool> counts_;
};

// Returns the step time of the trainer.
double Run(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
           const OpTimeModel& times) {
  trainer::TrainConfig config;
  config.model = model;
  config.workload = workload;
  config.plan = plan;
  config.lr.steps = 1;
  for (const OpTime& time : PlanOpTimes({model, workload, plan}, times))
    config.op_times.emplace(time.op, time.seconds);

  const int ranks = static_cast<int>(RankCount(plan));
  const auto rendezvous = trainer::CreateLocalRendezvous(ranks);
  std::vector<double> step_s(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto r = static_cast<std::size_t>(rank);
        trainer::Backend backend = trainer::CreateTrainBackend(EngineDevice::kPaced, *rendezvous[r], config);
        step_s[r] = trainer::Train(config, rank, ranks, backend, {}).step_time_s(0);
      } catch (const std::exception& e) {
        std::cerr << "autocfg_bubble_bench: rank " << rank << ": " << e.what() << std::endl;
        std::_Exit(1);  // its peers would wait for it forever
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return step_s.front();
}

double Sum(const std::vector<OpDesc>& ops, const OpTimeModel& times, const ParallelPlan& plan) {
  double seconds = 0;
  for (const OpDesc& op : ops) seconds += times.Seconds(op, plan);
  return seconds;
}

enum class Messages : std::uint8_t { kFree, kTimed, kOverlapping };
constexpr const char* kNames[] = {"bubble", "with_messages", "with_overlapping_messages"};

nlohmann::json Measure(const char* schedule, const ParallelPlan& plan, std::int64_t microbatches,
                       const ClusterSpec& cluster, const std::shared_ptr<const OpTimeModel>& cluster_times) {
  const ModelSpec model = Gpt();
  const Workload workload = Batch(microbatches);
  std::vector<OpDesc> layer = LayerForwardOps({model, workload, plan});
  const std::vector<OpDesc> backward = LayerBackwardOps({model, workload, plan}, /*accumulate=*/true);
  layer.insert(layer.end(), backward.begin(), backward.end());

  nlohmann::json row = {{"schedule", schedule},
                        {"pp", plan.pp},
                        {"virtual_stages", plan.virtual_stages},
                        {"microbatches", microbatches}};
  double published =
      static_cast<double>(plan.pp - 1) / static_cast<double>(plan.virtual_stages * microbatches);
  for (const Messages kind : {Messages::kFree, Messages::kTimed, Messages::kOverlapping}) {
    const bool messages = kind != Messages::kFree;
    ParallelPlan run = plan;
    run.p2p_overlap = kind == Messages::kOverlapping;
    const auto times = std::make_shared<LayerTimes>(cluster_times, layer, messages);
    const std::int64_t layers_run =
        microbatches * model.layers / plan.pp;  // of a rank; pp divides the layers
    const double ideal_s = static_cast<double>(layers_run) * Sum(layer, *times, plan);
    CostModel costs({model, workload, cluster}, times);
    nlohmann::json figures = {{"paced", Run(model, workload, run, *times) / ideal_s - 1},
                              {"simulated", costs.Trace(run).step_time_s / ideal_s - 1}};
    if (SplitsBackward(plan) && !messages) {
      const double weights_s =
          Sum(LayerBackwardOps({model, workload, plan}, true, {}, Gradients::kWeights), *times, plan);
      published *= 1 - 2 * weights_s / Sum(layer, *times, plan);
    }
    if (!messages) figures["published"] = published;
    if (kind == Messages::kTimed) {
      // A rank between first and last receives as many as it sends, both at the same time.
      const auto received = static_cast<double>(2 * microbatches * plan.virtual_stages);
      row["messages"] = received * costs.CostsOf(plan).p2p_s / ideal_s;
    }
    row[kNames[static_cast<std::size_t>(kind)]] = figures;
  }
  return row;
}

int Main() {
  const auto cluster = PresetCluster("a100-80gb-sxm:8x1");
  const auto times = cluster.ok() ? ClusterOpTimes::Create(*cluster, Batch(1).precision) : cluster.status();
  if (!times.ok()) {
    std::cerr << "autocfg_bubble_bench: " << times.status() << "\n";
    return 1;
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const std::int64_t pp : {2, 4, 8}) {
    for (const std::int64_t microbatches : {pp, 2 * pp, 4 * pp, 8 * pp}) {
      const auto measure = [&](const char* name, const ParallelPlan& plan) {
        rows.push_back(Measure(name, plan, microbatches, *cluster, *times));
      };
      measure("gpipe", {{.pp = pp}, {}, {.schedule = Schedule::kGPipe}});
      measure("1f1b", {{.pp = pp}, {}, {.schedule = Schedule::kOneFOneB}});
      measure("zb-h1", {{.pp = pp}, {}, {.schedule = Schedule::kZeroBubbleH1}});
      for (const std::int64_t v : {2, 4}) {
        measure("interleaved", {{.pp = pp}, {}, {.virtual_stages = v, .schedule = Schedule::kInterleaved}});
      }
    }
  }
  std::cout << nlohmann::json{{"unit", "idle over ideal time of a step"},
                              {"cluster", "a100-80gb-sxm:8x1"},
                              {"rows", rows}}
                   .dump()
            << "\n";
  return 0;
}

}  // namespace
}  // namespace autocfg

int main() { return autocfg::Main(); }
