// The engine's main test, over every kind of model and plan: with any combination of model parts, every
// layout must make the steps of one rank. Covers every pair of choices, then random plans and models. Ranks
// are threads that communicate over UCX.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "tests/support/covering_array.h"
#include "tests/support/plan_values.h"
#include "tests/support/random_features.h"
#include "tests/trainer/model_styles.h"
#include "tests/trainer/same_outcome.h"
#include "tests/trainer/thread_ranks.h"

namespace autocfg::trainer {
namespace {

using test::Case;
using test::ExpectSameSteps;
using test::ExpectSameWeights;
using test::ModelStyles;
using test::RunAsThreads;
using test::TrainedRun;

// Two steps with clipping, decay and a changing learning rate.
TrainConfig ShortRun(const ModelSpec& model) {
  TrainConfig c;
  c.model = model;
  c.workload.seq_len = 4;
  c.workload.precision = *ParsePrecision("fp64");
  c.lr = {.lr = 1e-2, .min_lr = 1e-3, .decay = LrDecay::kCosine, .warmup_steps = 0, .steps = 2};
  c.clip_norm = 0.5;
  c.seed = 5;
  return c;
}

// One layer per stage, with an extra layer in the middle and at the end.
std::vector<std::int64_t> UnevenSplit(std::int64_t stages) {
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), 1);
  ++split[split.size() / 2];
  ++split.back();
  return split;
}

// The axes of the covering array, in this order. kRows: whole rows, sequence parallelism, scattered messages.
// kUnits: whether gradients and parameters overlap compute.
enum Axis : std::size_t {
  kStyle,
  kTp,
  kPp,
  kDp,
  kSchedule,
  kVpp,
  kSplit,
  kRecompute,
  kAttention,
  kMicroBatch,
  kRows,
  kZero,
  kOverlap,
  kChunks,
  kUnits,
};
// What a case computes again. Each part also alone: what it reads is then stored.
constexpr std::array<std::string_view, 8> kRecomputes = {
    "none",           "selective",     "full",          "full:1",
    "selective:norm", "selective:act", "selective:mlp", "selective:core_attn+mlp+norm"};
constexpr int kOfScores = 1, kOfAllParts = 7;  // those that need unfused attention

// The first styles are an axis; the others take the plans of the cases in turn, because the search for cases
// goes through all combinations.
constexpr int kStylesOfAxis = 6;
const std::vector<int> kSizes = {kStylesOfAxis,
                                 3,
                                 3,
                                 2,
                                 static_cast<int>(test::PredictedSchedules().size()),
                                 3,
                                 2,
                                 static_cast<int>(kRecomputes.size()),
                                 2,
                                 2,
                                 3,
                                 7,
                                 2,
                                 3,
                                 4};

TrainConfig ConfigOf(const Case& c) {
  constexpr std::int64_t kPowers[] = {1, 2, 4};
  static const auto& schedules = *new std::vector<Schedule>(test::PredictedSchedules());
  static const auto& styles = *new std::vector<ModelSpec>(ModelStyles());
  TrainConfig config = ShortRun(styles.at(static_cast<std::size_t>(c[kStyle])));
  ParallelPlan& plan = config.plan;
  plan.tp = kPowers[c[kTp]];
  plan.pp = kPowers[c[kPp]];
  plan.dp = kPowers[c[kDp]];
  plan.schedule = schedules[static_cast<std::size_t>(c[kSchedule])];
  plan.virtual_stages = 1 + c[kVpp];
  EXPECT_TRUE(SetPlanOption(plan, "recompute", kRecomputes.at(static_cast<std::size_t>(c[kRecompute]))).ok());
  plan.attention = static_cast<Attention>(c[kAttention]);
  plan.micro_batch = 1 + c[kMicroBatch];
  plan.sequence_parallel = c[kRows] == 1;
  plan.scatter_gather = c[kRows] == 2;
  plan.zero_stage = c[kZero] / 2 + c[kZero] % 2;  // 0, 1, 1, 2, 2, 3, 3
  plan.dp_shard = c[kZero] > 0 && c[kZero] % 2 == 0 ? 2 : 0;
  plan.p2p_overlap = c[kOverlap] == 1;
  plan.tp_overlap = kPowers[c[kChunks]];
  plan.grad_overlap = c[kUnits] % 2 == 1;
  plan.param_overlap = c[kUnits] / 2 == 1 && plan.zero_stage > 0;
  const std::int64_t stages = plan.pp * plan.virtual_stages;
  std::int64_t layers = stages > 6 ? stages : 2 * stages;
  if (c[kSplit] == 1) {
    layers = stages + 2;
    plan.split = SplitMode::kExplicit;
    plan.split_layers = UnevenSplit(stages);
  }
  test::SetLayers(config.model, layers);
  const std::int64_t microbatches = plan.schedule == Schedule::kInterleaved ? 2 * plan.pp : plan.pp + 1;
  config.workload.global_batch = plan.dp * plan.micro_batch * microbatches;
  return config;
}

constexpr std::int64_t kMostRanks = 16;  // threads of this test; sufficient for every pair of sizes

bool IsLegal(const Case& c) {
  const TrainConfig config = ConfigOf(c);
  return !FindIllegality(config, kMostRanks).has_value();
}

int Cost(const Case& c) {
  const TrainConfig config = ConfigOf(c);
  return static_cast<int>(RankCount(config.plan) * config.model.layers);
}

std::string Describe(const TrainConfig& c) {
  const ParallelPlan& p = c.plan;
  std::string text = fmt::format(
      "{} {} layers={} heads={}/{} batch={} seq={}: tp={} pp={} dp={} mbs={} schedule={} vpp={} "
      "recompute={} attention={} sp={} scatter_gather={} p2p_overlap={} zero={} dp_shard={} "
      "tp_overlap={} grad_overlap={} param_overlap={}",
      c.model.name, PrecisionText(c.workload.precision), c.model.layers, c.model.heads, c.model.kv_heads,
      c.workload.global_batch, c.workload.seq_len, p.tp, p.pp, p.dp, p.micro_batch,
      static_cast<int>(p.schedule), p.virtual_stages, RecomputeText(p), Name(p.attention),
      p.sequence_parallel, p.scatter_gather, p.p2p_overlap, p.zero_stage, p.dp_shard, p.tp_overlap,
      p.grad_overlap, p.param_overlap);
  for (const std::int64_t layers : p.split_layers) text += fmt::format(" {}", layers);
  return text;
}

TrainedRun OneRank(TrainConfig config) {
  config.plan = {};
  return RunAsThreads(config);
}

void ExpectSame(const TrainConfig& config, const TrainedRun& one) {
  const TrainedRun outcome = RunAsThreads(config);
  EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
  ExpectSameSteps(one, outcome, 1e-9);
  ExpectSameWeights(config.model, one, outcome, 1e-9);
}

const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>(test::PairwiseCases(kSizes, IsLegal, Cost));
  return cases;
}

// Returns the one-rank run of the model and workload of a case, computed once for each.
const TrainedRun& CachedOneRank(const TrainConfig& c) {
  using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::uint64_t, std::string>;
  static auto& runs = *new std::map<Key, TrainedRun>();
  const Key key{c.model.name, c.model.layers, c.workload.global_batch, c.seed,
                PrecisionText(c.workload.precision)};
  const auto found = runs.find(key);
  return found != runs.end() ? found->second : runs.emplace(key, OneRank(c)).first->second;
}

// Returns the case's one-rank run in another precision.
const TrainedRun& CachedOneRank(TrainConfig c, const char* precision) {
  c.workload.precision = *ParsePrecision(precision);
  return CachedOneRank(c);
}

constexpr double kFp32Tolerance = 1e-5;

// Returns true if rounding to fp32 hardly changes the steps of one rank. It does where an activation has a
// kink, or the optimizer a gradient near zero, and a value rounds to the other side: then sums in another
// order may change them as much, or more.
bool RoundsHarmlessly(const TrainConfig& c) {
  const TrainedRun& exact = CachedOneRank(c, "fp64");
  const TrainedRun& rounded = CachedOneRank(c, "fp32");
  for (std::size_t s = 0; s < exact.steps.size(); ++s) {
    if (!(std::abs(rounded.steps.at(s).grad_norm / exact.steps[s].grad_norm - 1) < kFp32Tolerance))
      return false;
  }
  return true;
}

// In fp32, where sums in another order differ, from the first initial weights that round harmlessly.
void ExpectCloseInFp32(TrainConfig config) {
  const std::uint64_t last = config.seed + 10;
  while (!RoundsHarmlessly(config)) ASSERT_LT(++config.seed, last) << "no seed rounds harmlessly";
  config.workload.precision = *ParsePrecision("fp32");
  const TrainedRun outcome = RunAsThreads(config);
  EXPECT_THAT(outcome.differences, ::testing::IsEmpty());
  ExpectSameSteps(CachedOneRank(config), outcome, kFp32Tolerance);
}

class SameStepOfEveryPair : public ::testing::TestWithParam<Case> {};

TEST_P(SameStepOfEveryPair, MatchesOneRank) {
  const TrainConfig config = ConfigOf(GetParam());
  SCOPED_TRACE(Describe(config));
  ExpectSame(config, CachedOneRank(config));
  ExpectCloseInFp32(config);
}

INSTANTIATE_TEST_SUITE_P(Pairwise, SameStepOfEveryPair, ::testing::ValuesIn(Cases()));

// The styles beside the axis: each takes every sixth plan of the cases, so that six of them take all.
class SameStepOfOtherStyles : public ::testing::TestWithParam<int> {};

TEST_P(SameStepOfOtherStyles, MatchesOneRank) {
  constexpr std::size_t kStep = 6;
  int legal = 0;
  for (std::size_t i = static_cast<std::size_t>(GetParam()) % kStep; i < Cases().size(); i += kStep) {
    Case c = Cases()[i];
    c[kStyle] = GetParam();
    if (!IsLegal(c)) continue;
    const TrainConfig config = ConfigOf(c);
    SCOPED_TRACE(Describe(config));
    ExpectSame(config, CachedOneRank(config));
    ++legal;
  }
  EXPECT_GE(legal, 5);
}

INSTANTIATE_TEST_SUITE_P(Styles, SameStepOfOtherStyles,
                         ::testing::Range(kStylesOfAxis, static_cast<int>(ModelStyles().size())));

// Every way in which ZB-H1 splits a backward: each kind of model, of two and four stages, with each
// recomputation, with whole rows, sequence parallelism and scattered messages, with fewer microbatches than
// stages and with more.
class SameStepOfSplitBackwards : public ::testing::TestWithParam<int> {};

TEST_P(SameStepOfSplitBackwards, MatchesOneRank) {
  for (const std::int64_t pp : {2, 4}) {
    for (int recompute = 0; recompute < kSizes[kRecompute]; ++recompute) {
      for (int rows = 0; rows < kSizes[kRows]; ++rows) {
        Case c(kSizes.size(), 0);
        c[kStyle] = GetParam();
        c[kTp] = 1;
        c[kPp] = pp == 2 ? 1 : 2;
        c[kRecompute] = recompute;
        const bool of_scores = recompute == kOfScores || recompute == kOfAllParts;
        c[kAttention] = of_scores ? 1 : (recompute + rows) % 2;
        c[kSplit] = rows == 1 ? 1 : 0;
        c[kRows] = rows;
        TrainConfig config = ConfigOf(c);
        config.plan.schedule = Schedule::kZeroBubbleH1;
        if (pp > 2 && RecomputesInputs(config.plan)) continue;  // nothing is delayed
        const std::int64_t most = rows == 0 ? pp - 1 : 2 * pp + 1;
        config.workload.global_batch = most;
        SCOPED_TRACE(Describe(config));
        ASSERT_TRUE(SplitsBackward(config.plan));
        ExpectSame(config, CachedOneRank(config));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Styles, SameStepOfSplitBackwards,
                         ::testing::Range(0, static_cast<int>(ModelStyles().size())));

// Checks that the cases are meaningful: they include 16 ranks, deep interleaving and each style with each
// size, and uneven splits are uneven.
TEST(SameStepSetup, CasesCoverRequiredCombinations) {
  std::set<test::ChoicePair> pairs;
  for (const Case& c : Cases()) pairs.merge(test::PairsOf(c));
  for (int style = 0; style < kSizes[kStyle]; ++style) {
    for (std::size_t axis = 1; axis < kSizes.size(); ++axis) {
      for (int value = 0; value < kSizes[axis]; ++value) {
        EXPECT_TRUE(pairs.contains({{kStyle, style}, {static_cast<int>(axis), value}}))
            << "style " << style << " with value " << value << " of axis " << axis;
      }
    }
  }
  EXPECT_TRUE(pairs.contains({{kTp, 2}, {kPp, 2}}));
  EXPECT_TRUE(pairs.contains({{kPp, 2}, {kVpp, 2}}));
  EXPECT_TRUE(pairs.contains({{kVpp, 2}, {kSplit, 1}}));
  for (const int recompute : {kOfScores, kOfAllParts})
    EXPECT_TRUE(pairs.contains({{kRecompute, recompute}, {kAttention, 1}})) << "selective recompute acts";
  EXPECT_TRUE(pairs.contains({{kPp, 2}, {kSchedule, static_cast<int>(Schedule::kZeroBubbleH1)}}));
  EXPECT_FALSE(pairs.contains({{kPp, 0}, {kVpp, 1}})) << "virtual stages without a pipeline";
  EXPECT_EQ(UnevenSplit(4), (std::vector<std::int64_t>{1, 1, 2, 2}));
}

std::int64_t Pick(std::mt19937_64& random, std::initializer_list<std::int64_t> values) {
  return values.begin()[random() % values.size()];
}

ModelSpec RandomModel(std::mt19937_64& random, std::int64_t tp) {
  ModelSpec m;
  m.name = "random";
  m.hidden = Pick(random, {8, 12, 20});
  m.kv_heads = tp * Pick(random, {1, 2});
  m.heads = m.kv_heads * Pick(random, {1, 2, 3});
  m.head_dim = Pick(random, {2, 4, 6});
  m.ffn_hidden = tp * Pick(random, {3, 4, 5});
  m.vocab = Pick(random, {7, 29, 32});
  m.vocab_multiple = Pick(random, {1, 4});
  m.activation = static_cast<Activation>(random() % kActivationCount);
  m.norm = random() % 2 ? Norm::kRmsNorm : Norm::kLayerNorm;
  m.norm_eps = random() % 2 ? 1e-5 : 1e-6;
  constexpr Position kPositions[] = {Position::kLearned, Position::kRope, Position::kNone, Position::kAlibi};
  m.position = kPositions[random() % 4];
  m.rope_theta = random() % 2 ? 10000.0 : 500000.0;
  SetBiases(m, random() % 2);
  m.tied_embeddings = random() % 2;
  return m;
}

// Gives a model the parts of a style, and keeps its sizes.
void TakeParts(const ModelSpec& style, ModelSpec& m) {
  m.activation = style.activation;
  m.norm = style.norm;
  m.position = style.position;
  m.qkv_bias = style.qkv_bias;
  m.attention_out_bias = style.attention_out_bias;
  m.mlp_bias = style.mlp_bias;
  m.tied_embeddings = style.tied_embeddings;
  if (style.kv_heads == style.heads) m.kv_heads = m.heads;
}

constexpr std::int64_t kMostRandomRanks = 8;

// Returns a random legal run of at most eight ranks. `overlaps` says what overlaps, `parts` which parts of
// layers are recomputed; all other choices follow from `random`.
TrainConfig RandomConfig(std::mt19937_64& random, std::mt19937_64& overlaps, std::mt19937_64& parts) {
  for (;;) {
    ParallelPlan plan;
    plan.tp = Pick(random, {1, 2, 3, 4});
    plan.pp = Pick(random, {1, 2, 3, 4});
    plan.dp = Pick(random, {1, 2, 3, 4, 6});
    if (RankCount(plan) > kMostRandomRanks) continue;
    plan.micro_batch = Pick(random, {1, 2, 3});
    const std::vector<Schedule> schedules = test::PredictedSchedules();
    plan.schedule = schedules[random() % schedules.size()];
    if (TakesVirtualStages(plan.schedule)) plan.virtual_stages = Pick(random, {2, 3, 4});
    plan.recompute = static_cast<Recompute>(random() % kRecomputeCount);
    plan.attention = static_cast<Attention>(random() % kAttentionCount);
    if (plan.recompute != Recompute::kFull && parts() % 2 == 0) {
      plan.recompute = Recompute::kSelective;
      plan.recompute_parts = test::SomeParts(parts());
    }
    plan.sequence_parallel = random() % 2;
    plan.scatter_gather = random() % 2;
    plan.p2p_overlap = overlaps() % 2;
    plan.tp_overlap = std::int64_t{1} << overlaps() % 4;
    plan.zero_stage = static_cast<std::int64_t>(random() % 4);
    plan.grad_overlap = overlaps() % 2;
    plan.param_overlap = plan.zero_stage > 0 && overlaps() % 2;
    if (plan.zero_stage > 0) plan.dp_shard = Pick(random, {0, 2, 3});
    TrainConfig c = ShortRun(RandomModel(random, plan.tp));
    const std::int64_t stages = plan.pp * plan.virtual_stages;
    if (random() % 2) {
      c.model.layers = stages * Pick(random, {1, 2});
    } else {
      plan.split = SplitMode::kExplicit;
      for (std::int64_t s = 0; s < stages; ++s) plan.split_layers.push_back(Pick(random, {1, 1, 2, 3}));
      for (const std::int64_t layers : plan.split_layers) c.model.layers += layers;
    }
    if (plan.recompute == Recompute::kFull) plan.recompute_layers = Pick(random, {0, 1, 2});
    const std::int64_t rounds = Pick(random, {1, 2, 3});
    c.workload.global_batch = plan.dp * plan.micro_batch * rounds *
                              (plan.schedule == Schedule::kInterleaved ? plan.pp : Pick(random, {1, 2}));
    c.workload.seq_len = Pick(random, {2, 3, 4, 6, 12});
    c.model.max_seq_len = c.workload.seq_len + Pick(random, {0, 2});
    c.plan = plan;
    c.seed = random();
    if (!FindIllegality(c, kMostRandomRanks).has_value()) return c;
  }
}

// 300 runs in total, in parts that can run separately. The models of the first 200 mix parts at random; the
// last 100 are of GPT-2's and Llama's parts.
constexpr int kMixedParts = 10;
constexpr int kParts = 15;
constexpr int kRunsOfPart = 20;

std::vector<TrainConfig> RandomConfigs(int part) {
  std::mt19937_64 random(static_cast<std::uint64_t>(part));
  std::mt19937_64 overlaps(static_cast<std::uint64_t>(part) + 1000);
  std::mt19937_64 features(static_cast<std::uint64_t>(part) + 2000);
  std::mt19937_64 shared_heads(static_cast<std::uint64_t>(part) + 3000);
  std::mt19937_64 parts(static_cast<std::uint64_t>(part) + 4000);
  std::vector<TrainConfig> configs;
  for (int i = 0; i < kRunsOfPart; ++i) {
    configs.push_back(RandomConfig(random, overlaps, parts));
    if (part > kMixedParts) {
      TakeParts(ModelStyles().at(static_cast<std::size_t>(i % 2)), configs.back().model);
    } else {
      test::AddRandomFeatures(configs.back().model, features, false);
      test::FitChunks(configs.back().model, configs.back().workload.seq_len);
    }
    test::ShareKvHeads(configs.back().model, configs.back().plan.tp, shared_heads);
  }
  return configs;
}

class SameStepAtRandom : public ::testing::TestWithParam<int> {};

TEST_P(SameStepAtRandom, MatchesOneRank) {
  for (const TrainConfig& config : RandomConfigs(GetParam())) {
    SCOPED_TRACE(Describe(config));
    ExpectSame(config, OneRank(config));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SameStepAtRandom, ::testing::Range(1, 1 + kParts));

// Checks that the random plans take every value that the engine runs, and that many have the most ranks.
TEST(SameStepSetup, RandomPlansTakeEveryValueThatTheEngineRuns) {
  std::vector<ParallelPlan> plans;
  std::map<std::int64_t, int> plans_of_ranks;
  for (int part = 1; part <= kParts; ++part) {
    for (const TrainConfig& config : RandomConfigs(part)) {
      ASSERT_FALSE(FindIllegality(config, kMostRandomRanks).has_value());
      plans.push_back(config.plan);
      ++plans_of_ranks[RankCount(config.plan)];
    }
  }
  EXPECT_EQ(plans.size(), 300u);
  EXPECT_THAT(test::ValuesThatNoneTakes(plans), ::testing::IsEmpty());
  EXPECT_EQ(plans_of_ranks.rbegin()->first, kMostRandomRanks);
  EXPECT_GE(plans_of_ranks.rbegin()->second, 30);
}

}  // namespace
}  // namespace autocfg::trainer
