#include "search/cost/split.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "search/blocks/layer.h"
#include "search/cost/kinds_of_layers.h"
#include "search/plan/engine_stages/weighted_stages.h"
#include "search/plan/legality.h"
#include "search/plan/model_stages.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::RandomRuns;
using test::SmallGpt;
using test::SyntheticDevice;

class DeviceTimes final : public OpTimeModel {
 public:
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    return SyntheticDevice().Seconds(op);
  }
};

CostModel Costs(const ModelSpec& model, const Workload& workload) {
  return CostModel({model, workload, LocalRanks(4096)}, std::make_shared<const DeviceTimes>());
}

// Returns the largest time of a rank per microbatch.
double Bottleneck(CostModel& costs, const ParallelPlan& plan) {
  const PipelineCosts& pipeline = costs.CostsOf(plan);
  double most = 0;
  for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
    double sum = 0;
    for (std::int64_t stage = rank; stage < StageCount(plan); stage += plan.pp)
      sum += pipeline.stages[static_cast<std::size_t>(stage)].Total();
    most = std::max(most, sum);
  }
  return most;
}

// Calls `visit` with every assignment of `layers` layers to `stages` stages.
void ForEachSplit(std::int64_t layers, std::size_t stages,
                  const std::function<void(const std::vector<std::int64_t>&)>& visit) {
  std::vector<std::int64_t> split;
  const std::function<void(std::int64_t)> next = [&](std::int64_t left) {
    if (split.size() + 1 == stages) {
      split.push_back(left);
      visit(split);
      split.pop_back();
      return;
    }
    for (std::int64_t n = 1; left - n >= static_cast<std::int64_t>(stages - split.size()) - 1; ++n) {
      split.push_back(n);
      next(left - n);
      split.pop_back();
    }
  };
  next(layers);
}

ParallelPlan Auto(std::int64_t pp, std::int64_t vpp = 1) {
  ParallelPlan plan;
  plan.pp = pp;
  plan.virtual_stages = vpp;
  if (vpp > 1) plan.schedule = Schedule::kInterleaved;
  plan.split = SplitMode::kAuto;
  return plan;
}

// No split has a less busy bottleneck rank than the chosen one. Exception: under full:K, uneven chunks could
// reduce a rank's recomputation. There the choice is the best among splits with even chunks, and is compared
// with those.
TEST(ResolveSplit, NoSplitHasALowerBottleneck) {
  RandomRuns random(61);
  int better_than_even = 0, full_k = 0;
  for (int i = 0; i < 250; ++i) {
    ParallelPlan plan = Auto(random.Pick({2, 3, 4}), random.Pick({1, 1, 2}));
    if (plan.pp == 4) plan.virtual_stages = 1;
    if (plan.virtual_stages == 1) plan.schedule = Schedule::kOneFOneB;
    ModelSpec model = random.Model(1);
    model.layer_kinds.clear();
    model.layers = StageCount(plan) + random.Between(0, 6);
    model.max_seq_len = 16;
    if (random.Coin()) {
      plan.recompute = Recompute::kFull;
      plan.recompute_layers = random.Between(0, 2);
    }
    const Workload workload = Fp32(4 * plan.pp, 16);
    CostModel costs = Costs(model, workload);
    const ParallelPlan resolved = ResolveSplit(costs, plan);
    ASSERT_FALSE(FindIllegality({model, workload, resolved}, 64)) << i;
    ASSERT_NE(resolved.split, SplitMode::kAuto);
    const double bottleneck = Bottleneck(costs, resolved);

    ParallelPlan other = plan;
    other.split = SplitMode::kExplicit;
    ForEachSplit(model.layers, static_cast<std::size_t>(StageCount(plan)),
                 [&](const std::vector<std::int64_t>& split) {
                   other.split_layers = split;
                   if (plan.recompute_layers > 0 && plan.virtual_stages > 1) {
                     ++full_k;
                     for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
                       if (std::abs(split[static_cast<std::size_t>(rank)] -
                                    split[static_cast<std::size_t>(rank + plan.pp)]) > 1)
                         return;
                     }
                   }
                   ASSERT_GE(Bottleneck(costs, other), bottleneck * (1 - 1e-12)) << i;
                 });
    if (model.layers % StageCount(plan) == 0) {
      ParallelPlan even = plan;
      even.split = SplitMode::kEven;
      const double of_even = Bottleneck(costs, even);
      EXPECT_EQ(resolved.split == SplitMode::kEven, of_even <= bottleneck * (1 + 1e-12))
          << i << ": ties go to the even split";
      if (of_even > bottleneck) ++better_than_even;
    }
  }
  EXPECT_GT(better_than_even, 10);
  EXPECT_GT(full_k, 10);
}

// The same of models whose layers are of several kinds, and the largest stage.
TEST(ResolveSplit, NoSplitOfKindsHasALargerStage) {
  RandomRuns random(62);
  int kinds = 0, better_than_even = 0;
  for (int i = 0; i < 250; ++i) {
    ParallelPlan plan = Auto(random.Pick({2, 3, 4}));
    if (random.Coin()) plan.virtual_stages = plan.pp == 2 ? 2 : 1;
    if (plan.virtual_stages == 2) plan.schedule = Schedule::kInterleaved;
    ModelSpec model = random.Model(1);
    model.layer_kinds.clear();
    for (int run = 0; run < 3; ++run)
      model.layer_kinds.push_back({.layers = 1, .window = random.Pick({0, 0, 1, 8, 256})});
    test::SetLayers(model, StageCount(plan) + random.Between(0, 6));
    model.max_seq_len = 512;
    plan.recompute = random.Coin() ? Recompute::kFull : Recompute::kNone;
    const Workload workload = Fp32(4 * plan.pp, 512);
    if (KindsOfLayers(model, workload.seq_len).AreAlike()) continue;
    ++kinds;
    CostModel costs = Costs(model, workload);
    const ParallelPlan resolved = ResolveSplit(costs, plan);
    ASSERT_FALSE(FindIllegality({model, workload, resolved}, 64)) << i;
    const auto largest = [&](const ParallelPlan& of) {
      double most = 0;
      for (const StageCosts& stage : costs.CostsOf(of).stages) most = std::max(most, stage.Total());
      return most;
    };
    const double chosen = largest(resolved);
    ParallelPlan other = plan;
    other.split = SplitMode::kExplicit;
    ForEachSplit(model.layers, static_cast<std::size_t>(StageCount(plan)),
                 [&](const std::vector<std::int64_t>& split) {
                   other.split_layers = split;
                   ASSERT_GE(largest(other), chosen * (1 - 1e-8)) << i;
                 });
    if (model.layers % StageCount(plan) != 0) continue;
    ParallelPlan even = plan;
    even.split = SplitMode::kEven;
    EXPECT_EQ(resolved.split == SplitMode::kEven, largest(even) <= chosen * (1 + 1e-8))
        << i << ": ties go to the even split";
    if (largest(even) > chosen * (1 + 1e-8)) ++better_than_even;
  }
  EXPECT_GT(kinds, 150);
  EXPECT_GT(better_than_even, 10);
}

// nanotron's Llama of 1.34B parameters has an output layer of the weights of 4 layers: 20 parts, of which
// each of 2 stages takes 10 and each of 4 takes 5; the parameters that its runs had on the first stage say
// so.
TEST(StagesByWeight, CountTheOutputLayer) {
  const ModelSpec model{
      .layers = 16, .hidden = 2048, .heads = 32, .head_dim = 64, .ffn_hidden = 8192, .vocab = 131072};
  const auto stages = [&](std::int64_t pp) { return WithALayerEach(StagesByWeight(model, pp)); };
  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(stages(1), (Layers{16}));
  EXPECT_EQ(stages(2), (Layers{10, 6}));
  EXPECT_EQ(stages(4), (Layers{5, 5, 5, 1}));
  EXPECT_EQ(stages(8), (Layers{3, 2, 3, 2, 3, 1, 1, 1})) << "a layer for each";
  EXPECT_EQ(stages(16), Layers(16, 1));
}

// Whatever the plan says of its split, the engine takes its own; a split that is named stays.
TEST(ResolveSplit, AnEngineThatMakesItsStages) {
  const ModelSpec model = SmallGpt(16, 128, 8, 1024);
  ClusterSpec cluster = LocalRanks(4096);
  cluster.engine.splits_by_weight = true;
  CostModel costs({model, Fp32(8, 16), cluster}, std::make_shared<const DeviceTimes>());
  ParallelPlan plan = Auto(4);
  const std::vector<std::int64_t> own = WithALayerEach(StagesByWeight(model, plan.pp));
  for (const SplitMode split : {SplitMode::kEven, SplitMode::kAuto}) {
    plan.split = split;
    EXPECT_EQ(ResolveSplit(costs, plan).split_layers, own);
  }
  plan.split = SplitMode::kExplicit;
  plan.split_layers = {4, 4, 4, 4};
  EXPECT_EQ(ResolveSplit(costs, plan), plan);
}

// The head costs slightly more than two layers, so the last rank gets two fewer.
TEST(ResolveSplit, ByHand) {
  ModelSpec model = SmallGpt(10, 128, 8, 1024);
  const Workload workload = Fp32(8, 64);
  class Times final : public OpTimeModel {
   public:
    double Seconds(const OpDesc& op, const ParallelPlan&) const override {
      if (op.kind == OpKind::kAttentionForward) return 1;  // one per layer
      if (op.kind == OpKind::kCrossEntropy) return head;   // one in the head
      if (op.kind == OpKind::kEmbeddingForward) return embedding;
      return 0;
    }
    double head = 2, embedding = 0;
  };
  Times times;
  const auto split = [&](const ParallelPlan& plan) {
    CostModel costs({model, workload, LocalRanks(64)}, std::make_shared<const Times>(times));
    return ResolveSplit(costs, plan);
  };
  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(split(Auto(4)).split_layers, (Layers{3, 3, 3, 1}));
  model.layers = 11;  // one rank needs four in any case; the others are even, larger ranks first
  EXPECT_EQ(split(Auto(4)).split_layers, (Layers{3, 3, 3, 2}));
  times.embedding = 2;
  model.layers = 12;
  EXPECT_EQ(split(Auto(4)).split_layers, (Layers{2, 4, 4, 2}));
  model.layers = 5;
  EXPECT_EQ(split(Auto(4)).split_layers, (Layers{1, 2, 1, 1})) << "at least one a stage";
  times = Times();
  times.head = 0.5;
  model.layers = 8;
  EXPECT_EQ(split(Auto(4)).split, SplitMode::kEven) << "no split is better, and none closer to even";
  EXPECT_TRUE(split(Auto(4)).split_layers.empty());

  // Chunks of a rank differ by at most one layer, with the larger ones last, if the layers are not divisible.
  times.head = 0;
  model.layers = 11;
  EXPECT_EQ(split(Auto(2, 2)).split_layers, (Layers{3, 2, 3, 3}));
  model.layers = 9;
  EXPECT_EQ(split(Auto(2, 2)).split_layers, (Layers{2, 2, 3, 2}));

  // full:K becomes full if the largest stage has at most K layers; otherwise K is kept.
  ParallelPlan full = Auto(4);
  full.recompute = Recompute::kFull;
  full.recompute_layers = 3;
  EXPECT_EQ(split(full).recompute_layers, 0);
  full.recompute_layers = 2;
  EXPECT_EQ(split(full).recompute_layers, 2);
}

// If only issuing ops takes time, their number decides: 7 forward and 11 backward per layer (on one GPU, with
// biases, without a gate), 2 and 2 for the embedding, 3 and 3 for the head.
TEST(ResolveSplit, ByTheHostTime) {
  class Times final : public OpTimeModel {
   public:
    double Seconds(const OpDesc& op, const ParallelPlan&) const override {
      return op.kind == OpKind::kCrossEntropy ? head_s : 0;
    }
    double HostOpSeconds() const override { return 1; }
    double head_s = 0;
  };
  Times times;
  ModelSpec model = SmallGpt(12);
  const auto split = [&](const ParallelPlan& plan) {
    CostModel costs({model, Fp32(8, 16), LocalRanks(64)}, std::make_shared<const Times>(times));
    return ResolveSplit(costs, plan);
  };
  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(split(Auto(4)).split, SplitMode::kEven) << "3 layers take 54 s, and 6 more at the end";
  model.layers = 11;
  EXPECT_EQ(split(Auto(4)).split_layers, (Layers{3, 3, 3, 2})) << "2 layers and the head take 42 s";
  // While the head's forward runs for 60 s, the host issues it and its single layer's forward: 60 + 14 s.
  // Four layers take 72 s on a middle rank, and 76 s with the embedding on the first rank.
  times.head_s = 60;
  EXPECT_EQ(split(Auto(4)).split_layers, (Layers{3, 4, 3, 1}));
}

TEST(ResolveSplit, OtherPlansAreUnchanged) {
  const ModelSpec model = SmallGpt(8);
  CostModel costs = Costs(model, Fp32(8, 16));
  ParallelPlan plan = Auto(4);
  plan.split = SplitMode::kEven;
  EXPECT_EQ(ResolveSplit(costs, plan), plan);
  plan.split = SplitMode::kExplicit;
  plan.split_layers = {5, 1, 1, 1};
  EXPECT_EQ(ResolveSplit(costs, plan), plan);
  EXPECT_EQ(ResolveSplit(costs, Auto(1)).split, SplitMode::kEven);
}

// full:K with K at least the layers of the largest stage equals full, for every kind of split.
TEST(ResolveSplit, RecomputingAllLayersIsFull) {
  const ModelSpec model = SmallGpt(8);
  CostModel costs({model, Fp32(8, 16), LocalRanks(8)}, OpTimes());
  const auto left = [&](SplitMode split, std::vector<std::int64_t> layers, std::int64_t recomputed) {
    ParallelPlan plan = Auto(2);
    plan.split = split;
    plan.split_layers = std::move(layers);
    plan.recompute = Recompute::kFull;
    plan.recompute_layers = recomputed;
    return ResolveSplit(costs, plan).recompute_layers;
  };
  EXPECT_EQ(left(SplitMode::kEven, {}, 4), 0);
  EXPECT_EQ(left(SplitMode::kEven, {}, 3), 3);
  EXPECT_EQ(left(SplitMode::kExplicit, {5, 3}, 5), 0);
  EXPECT_EQ(left(SplitMode::kExplicit, {5, 3}, 4), 4);
  EXPECT_EQ(left(SplitMode::kAuto, {}, 5), 0);
}

// Without known times, the number of layers decides.
TEST(ResolveSplit, WithoutTimes) {
  const ModelSpec model = SmallGpt(8);
  CostModel costs({model, Fp32(8, 16), LocalRanks(8)}, OpTimes());
  EXPECT_EQ(ResolveSplit(costs, Auto(3)).split_layers, (std::vector<std::int64_t>{3, 3, 2}));
}

}  // namespace
}  // namespace autocfg
