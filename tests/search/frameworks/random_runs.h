// Random legal runs of known models, to export.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "search/frameworks/exported_run.h"
#include "search/plan/legality.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_options.h"
#include "search/text/model_json.h"

namespace autocfg::test {

class RandomRuns {
 public:
  explicit RandomRuns(std::uint64_t seed) : random_(seed) {}

  // Returns the next run: its plan is legal, in canonical form, with a definite split.
  ExportedRun Next() {
    for (;;) {
      ExportedRun run = Drawn();
      if (!CheckLegal(run, RankCount(run.plan)).ok()) continue;
      run.plan = Canonical(run.plan);
      return run;
    }
  }

 private:
  std::int64_t Of(std::initializer_list<std::int64_t> values) {
    return values.begin()[random_() % values.size()];
  }
  bool Coin() { return random_() % 2 == 0; }
  LayerParts SomeParts() {
    LayerParts parts;
    for (std::size_t i = 0; i < kLayerPartNames.size(); ++i) {
      if (random_() % 3 == 0) parts.Add(static_cast<LayerPart>(i));
    }
    return parts;
  }

  ExportedRun Drawn() {
    constexpr std::array kModels = {"gpt2-124m", "llama3-8b", "llama3-70b", "gpt3-175b", "llama2-7b"};
    ExportedRun run;
    run.model = *ModelPreset(kModels[random_() % kModels.size()]);
    FillDefaults(run.model);
    if (random_() % 4 == 0) run.model.qk_norm = QkNorm::kHead;
    if (random_() % 4 == 0) run.model.qkv_bias = !run.model.qkv_bias;
    if (random_() % 4 == 0) {
      LayerPattern pattern{.sliding_window = Of({0, 128}), .sliding_window_pattern = Of({0, 2, 5})};
      if (pattern.sliding_window == 0) pattern.sliding_window_pattern = 0;
      if (run.model.position == Position::kRope) pattern.no_rope_layer_interval = Of({0, 3, 4});
      EXPECT_TRUE(ApplyPattern(pattern, run.model).ok());
    }
    ParallelPlan& plan = run.plan;
    plan.tp = Of({1, 1, 2, 4, 8});
    plan.pp = Of({1, 1, 2, 4});
    plan.dp = Of({1, 2, 4, 8});
    plan.micro_batch = Of({1, 2});
    plan.virtual_stages = plan.pp > 1 ? Of({1, 1, 2}) : 1;
    plan.schedule =
        plan.virtual_stages > 1 ? Schedule::kInterleaved : static_cast<Schedule>(Of({0, 1, 1, 1, 3}));
    plan.recompute = static_cast<Recompute>(random_() % kRecomputeCount);
    if (plan.recompute == Recompute::kFull && Coin()) plan.recompute_layers = 1;
    if (plan.recompute == Recompute::kSelective && Coin()) plan.recompute_parts = SomeParts();
    plan.attention = random_() % 4 == 0 ? Attention::kUnfused : Attention::kFused;
    plan.sequence_parallel = plan.tp > 1 && Coin();
    plan.tp_overlap = random_() % 4 == 0 ? 4 : 1;
    plan.zero_stage = Of({0, 1, 2, 3});
    if (plan.zero_stage > 0 && plan.dp >= 4 && random_() % 4 == 0) plan.dp_shard = 2;
    plan.grad_overlap = Coin();
    plan.param_overlap = Coin();
    plan.p2p_overlap = Coin();
    plan.scatter_gather = random_() % 4 == 0;
    if (plan.pp > 1 && Coin()) {
      plan.split = SplitMode::kExplicit;
      plan.split_layers.assign(static_cast<std::size_t>(StageCount(plan)),
                               run.model.layers / StageCount(plan));
      for (std::int64_t left = run.model.layers % StageCount(plan); left > 0; --left)
        ++plan.split_layers[static_cast<std::size_t>(left)];
      plan.split_layers.front() += 1;
      plan.split_layers.back() -= 1;
    }
    run.workload.seq_len = 1024;
    run.workload.global_batch = plan.dp * plan.micro_batch * plan.pp * Of({1, 2, 4});
    run.workload.precision = *ParsePrecision(random_() % 4 == 0 ? "fp32" : "bf16");
    run.cluster.name = "h100-sxm:8x8";
    run.cluster.groups = {NodeGroup{.nodes = 8, .gpus_per_node = 8}};
    return run;
  }

  std::mt19937_64 random_;
};

}  // namespace autocfg::test
