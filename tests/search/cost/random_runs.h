// Random legal runs: models with every mix of parts, plans over every axis that can be predicted. The same
// seed gives the same runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "search/plan/legality.h"
#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "tests/support/plan_values.h"
#include "tests/support/random_features.h"

namespace autocfg::test {

struct RandomRun {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;
};

struct RunLimits {
  std::vector<std::int64_t> tp = {1, 2, 4};
  std::vector<std::int64_t> pp = {1, 2, 3, 4, 8};
  std::vector<std::int64_t> dp = {1, 2, 3};
  std::int64_t layers_per_stage = 4;
  std::int64_t microbatches = 24;
  // includes options that the engine does not run yet
  bool predicted_only = true;
  // includes models whose layers have ops on the outputs of their blocks
  bool output_ops = true;
};

class RandomRuns {
 public:
  explicit RandomRuns(std::uint64_t seed, RunLimits limits = {})
      : random_(seed),
        flags_(~seed),
        split_backwards_(seed + 1),
        messages_(seed + 2),
        states_(seed + 3),
        features_(seed + 4),
        shared_heads_(seed + 5),
        optimizers_(seed + 6),
        parts_(seed + 7),
        limits_(std::move(limits)) {
    for (int i = 0; i < kPositionCount; ++i) {
      const ModelSpec model{.position = static_cast<Position>(i)};
      if ((limits_.predicted_only ? CheckPredictable(model) : CheckEngineSupports(model)).ok())
        positions_.push_back(model.position);
    }
  }

  std::int64_t Pick(const std::vector<std::int64_t>& from) { return from[random_() % from.size()]; }
  std::int64_t Between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool Coin() { return random_() % 2 == 0; }
  double Uniform() { return static_cast<double>(random_() % 1000000) / 1e6; }

  // Returns a model with a random mix of parts. Sizes are multiples of `tp` if required, otherwise arbitrary.
  ModelSpec Model(std::int64_t tp) {
    ModelSpec model;
    model.kv_heads = tp * Pick({1, 2});
    model.heads = model.kv_heads * Pick({1, 2, 3});
    model.head_dim = Pick({2, 6, 16, 64});
    model.hidden = Coin() ? model.heads * model.head_dim : Pick({5, 96, 250, 1024});
    model.ffn_hidden = tp * Pick({1, 7, 64, 500});
    model.vocab = Pick({2, 61, 1000, 50257});
    model.vocab_multiple = Pick({1, 8, 128});
    model.activation = static_cast<Activation>(Between(0, kActivationCount - 1));
    model.norm = static_cast<Norm>(Between(0, kNormCount - 1));
    model.position = positions_[random_() % positions_.size()];
    SetBiases(model, Coin());
    model.tied_embeddings = Coin();
    AddRandomFeatures(model, features_, /*predicted_only=*/false);
    if (!limits_.output_ops) {
      model.residual_scale = 1;
      model.norm_placement = NormPlacement::kPre;
    }
    ShareKvHeads(model, tp, shared_heads_);
    return model;
  }

  RandomRun Next() {
    for (;;) {
      RandomRun run;
      ParallelPlan& plan = run.plan;
      plan.tp = Pick(limits_.tp);
      plan.pp = Pick(limits_.pp);
      plan.dp = Pick(limits_.dp);
      plan.micro_batch = Pick({1, 2, 3});
      std::int64_t microbatches = Between(1, limits_.microbatches);
      if (plan.pp > 1) {
        plan.schedule = schedules_[random_() % schedules_.size()];
        if (TakesVirtualStages(plan.schedule)) {
          plan.virtual_stages = Pick({2, 3, 4});
          microbatches = plan.pp * std::max<std::int64_t>(1, microbatches / plan.pp);
        } else if (split_backwards_() % 5 < 2) {
          plan.schedule = Schedule::kZeroBubbleH1;
        }
      }
      run.model = Model(plan.tp);
      SetLayers(run.model, Layers(plan));
      switch (random_() % 5) {
        case 1: plan.recompute = Recompute::kFull; break;
        case 2:
          plan.recompute = Recompute::kFull;
          plan.recompute_layers = Between(1, limits_.layers_per_stage);
          break;
        case 3:
          plan.attention = Attention::kUnfused;
          plan.recompute = static_cast<Recompute>(Between(0, 2));
          if (plan.recompute == Recompute::kFull) plan.recompute_layers = run.model.layers % 3;  // 0: all
          break;
        default: break;
      }
      if (plan.recompute != Recompute::kFull && parts_() % 2 == 0) {
        plan.recompute = Recompute::kSelective;
        plan.recompute_parts = SomeParts(parts_());
      }
      plan.scatter_gather = limits_.predicted_only ? Coin() : flags_() % 2 == 0;
      plan.p2p_overlap = messages_() % 2 == 0;
      plan.tp_overlap = std::int64_t{1} << messages_() % 4;
      plan = Canonical(plan);
      run.workload.seq_len = Pick({1, 5, 16, 129});
      FitChunks(run.model, run.workload.seq_len);
      const bool divides = plan.tp > 1 && run.workload.seq_len % plan.tp == 0;
      plan.sequence_parallel = flags_() % 2 == 0 && divides;
      if (plan.sequence_parallel) plan.scatter_gather = false;
      if (plan.dp > 1) plan.zero_stage = static_cast<std::int64_t>(flags_() % 4);
      if (plan.zero_stage > 0 && plan.dp % 2 == 0 && plan.dp > 2 && flags_() % 2 == 0) plan.dp_shard = 2;
      plan.grad_overlap = plan.dp > 1 && states_() % 2 == 0;
      plan.param_overlap = ShardsStates(plan) && states_() % 2 == 0;
      run.model.max_seq_len = run.workload.seq_len + Pick({0, 3});
      run.workload.global_batch = plan.dp * plan.micro_batch * microbatches;
      run.workload.precision =
          *ParsePrecision(std::vector{"fp32", "fp64", "bf16", "bf16:grads=bf16,moments=bf16,master=none",
                                      "bf16:master=bf16", "fp32:grads=bf16,moments=bf16"}[random_() % 6]);
      const Optimizer plain{.kind = OptimizerKind::kSgd}, heavy{OptimizerKind::kSgd, 0.9};
      run.workload.optimizer = std::vector<Optimizer>{{}, {}, plain, heavy}[optimizers_() % 4];
      if (!FindIllegality({run.model, run.workload, plan}, RankCount(plan))) return run;
    }
  }

 private:
  // Chooses an even or an explicit split; returns the layers of the model.
  std::int64_t Layers(ParallelPlan& plan) {
    if (plan.pp == 1 || Coin()) return StageCount(plan) * Between(1, limits_.layers_per_stage);
    plan.split = SplitMode::kExplicit;
    std::int64_t layers = 0;
    for (std::int64_t stage = 0; stage < StageCount(plan); ++stage) {
      plan.split_layers.push_back(Between(1, limits_.layers_per_stage));
      layers += plan.split_layers.back();
    }
    return layers;
  }

  std::mt19937_64 random_;
  // Of options and values that were added later: the other choices stay as they were.
  std::mt19937_64 flags_, split_backwards_, messages_, states_, features_, shared_heads_, optimizers_, parts_;
  RunLimits limits_;
  std::vector<Position> positions_;  // those that the runs may have
  std::vector<Schedule> schedules_ = {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kInterleaved};
};

}  // namespace autocfg::test
