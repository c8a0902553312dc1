// Tests which plans a search shows and measures, and in which order.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/plan/plan_text.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/search_loop.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/search/planner/made_up_study.h"
#include "tests/search/space/small_spaces.h"

namespace autocfg {
namespace {

using test::Calibrated;
using test::FlatTimes;
using test::Fp32;
using test::HiddenTruth;
using test::kAll;
using test::LocalRanks;
using test::Loop;
using test::RunStudy;
using test::SmallGpt;
using test::Step;

// All plans shown, measured and recommended are complete, and no two are equal.
TEST(SearchLoop, SplitsAreDefinite) {
  SearchLoop loop = Calibrated();
  std::set<ParallelPlan> plans;
  int uneven = 0;
  for (const RankedPlan& r : loop.Ranking(kAll)) {
    EXPECT_NE(r.plan.split, SplitMode::kAuto);
    EXPECT_TRUE(plans.insert(r.plan).second) << PlanText(r.plan);
    EXPECT_FALSE(FindIllegality({SmallGpt(12, 128, 8), Fp32(16, 32), r.plan}, 8)) << PlanText(r.plan);
    uneven += r.plan.split == SplitMode::kExplicit;
  }
  EXPECT_GT(uneven, 20);
  EXPECT_EQ(loop.counts().predicted, static_cast<std::int64_t>(plans.size()));
  for (const TrialRequest& r : loop.Next()) EXPECT_TRUE(plans.contains(r.plan));

  // Other times give other splits: with a nearly free output layer, even splits remain if the layers are
  // divisible.
  auto made = SearchLoop::Create({SmallGpt(12, 128, 8, 20000), Fp32(16, 32), LocalRanks(8)},
                                 {{"split", {"even", "auto"}}}, {});
  ASSERT_TRUE(made.ok()) << made.status();
  SearchLoop again = *std::move(made);
  const std::int64_t before = again.counts().enumerated;
  ASSERT_TRUE(again.SetCalibration(std::make_shared<const FlatTimes>(), 0).ok());
  const SearchCounts& counts = again.counts();
  EXPECT_LT(counts.enumerated, before) << "more of them are the even one again";
  EXPECT_EQ(counts.enumerated, counts.illegal + counts.out_of_memory + counts.predicted);
  for (const RankedPlan& r : again.Ranking(kAll)) {
    if (r.plan.recompute == Recompute::kNone && 12 % (r.plan.pp * r.plan.virtual_stages) == 0) {
      EXPECT_EQ(r.plan.split, SplitMode::kEven) << PlanText(r.plan);
    }
  }
}

TEST(SearchLoop, AutoOnlySpaceKeepsEvenSplits) {
  const AxisValues only_auto = {
      {"split", {"auto"}}, {"pp", {"2"}}, {"vpp", {"1", "3"}}, {"recompute", {"none"}}};
  SearchLoop loop = Loop({}, LocalRanks(8), Fp32(16, 32), only_auto);
  ASSERT_TRUE(loop.SetCalibration(std::make_shared<const FlatTimes>(), 0).ok());
  const auto ranking = loop.Ranking(kAll);
  ASSERT_FALSE(ranking.empty());
  for (const RankedPlan& r : ranking) EXPECT_EQ(r.plan.split, SplitMode::kEven);
}

// Messages in parts are faster between nodes if nothing hides them, and searches go through them by default.
TEST(SearchLoop, FindsThatScatteredMessagesAreFasterBetweenNodes) {
  const ModelSpec model = *ModelPreset("llama3-8b");
  const Workload workload{.global_batch = 64, .seq_len = 8192, .precision = *ParsePrecision("bf16")};
  const ClusterSpec cluster = *PresetCluster("h100-sxm:2x8");
  const auto times = ClusterOpTimes::Create(cluster, workload.precision);
  ASSERT_TRUE(times.ok()) << times.status();
  const auto best = [&](const AxisValues& space) {
    auto loop = SearchLoop::Create({model, workload, cluster}, space, {.predict_only = true});
    EXPECT_TRUE(loop.ok()) << loop.status();
    EXPECT_TRUE(loop->SetCalibration(*times, DeviceOverheadBytes(cluster)).ok());
    return loop->Ranking(1).front();
  };
  const AxisValues others = {{"sp", {"0"}}, {"zero", {"0"}}, {"p2p_overlap", {"0"}}};
  AxisValues whole = others;
  whole.push_back({"scatter_gather", {"0"}});
  const RankedPlan all = best(others), run = best(whole);
  EXPECT_TRUE(all.plan.scatter_gather) << PlanText(all.plan);
  EXPECT_LT(all.predicted.step_time_s, 0.995 * run.predicted.step_time_s);
}

// A plan is out of memory if it takes more than the margin leaves.
TEST(SearchLoop, FeasiblePlansLeaveTheMemoryMargin) {
  ClusterSpec cluster = LocalRanks(8);
  const auto with = [&](double margin) {
    auto loop = SearchLoop::Create({SmallGpt(12, 128, 8), Fp32(16, 32), cluster}, test::EveryDerivedValue(),
                                   {.memory_margin = margin});
    EXPECT_TRUE(loop.ok()) << loop.status();
    EXPECT_TRUE(loop->SetCalibration(std::make_shared<const NominalTimes>(), 0).ok());
    return *std::move(loop);
  };
  std::vector<std::int64_t> bytes;
  for (const RankedPlan& r : with(0).Ranking(kAll)) bytes.push_back(r.predicted.memory.Total());
  std::sort(bytes.begin(), bytes.end());
  const std::int64_t middle = bytes[bytes.size() / 2];
  cluster.groups.front().device.memory_bytes = 2 * middle;
  SearchLoop half = with(0.5);
  EXPECT_EQ(half.counts().predicted, std::upper_bound(bytes.begin(), bytes.end(), middle) - bytes.begin());
  EXPECT_EQ(half.counts().out_of_memory, static_cast<std::int64_t>(bytes.size()) - half.counts().predicted);
  for (const RankedPlan& r : half.Ranking(kAll)) EXPECT_TRUE(r.predicted.feasible) << r.predicted.reason;
  EXPECT_FALSE(
      SearchLoop::Create({SmallGpt(12, 128, 8), Fp32(16, 32), cluster}, {}, {.memory_margin = 1}).ok());
}

// Returns the time that a plan is ranked by.
double RankedBy(const RankedPlan& plan) {
  return plan.median_step_time_s.value_or(plan.predicted.step_time_s);
}

// Compares with the ranking, of a search that ran plans and of one that only predicts.
TEST(SearchLoop, MemoryFrontHasThePlansThatNoOtherBeats) {
  for (const bool predict_only : {true, false}) {
    SearchLoop loop = Loop({.predict_only = predict_only});
    EXPECT_TRUE(loop.MemoryFront(kAll).empty()) << "no times are known";
    EXPECT_FALSE(loop.MattersMost());
    ASSERT_TRUE(loop.SetCalibration(std::make_shared<const NominalTimes>(), 0).ok());
    if (!predict_only) {
      HiddenTruth truth(loop.Ranking(kAll), 3);
      RunStudy(loop, truth);
    }
    const std::vector<RankedPlan> all = loop.Ranking(kAll), front = loop.MemoryFront(kAll);
    ASSERT_GT(front.size(), 3u);
    for (std::size_t i = 1; i < front.size(); ++i) {
      EXPECT_LT(RankedBy(front[i - 1]), RankedBy(front[i]));
      EXPECT_GT(front[i - 1].predicted.memory.Total(), front[i].predicted.memory.Total());
    }
    constexpr std::int64_t kRounded = 1024;  // the front compares whole KiB
    for (const RankedPlan& plan : all) {
      const bool reached = std::any_of(front.begin(), front.end(), [&](const RankedPlan& other) {
        return RankedBy(other) <= RankedBy(plan) &&
               other.predicted.memory.Total() < plan.predicted.memory.Total() + kRounded;
      });
      EXPECT_TRUE(reached) << PlanText(plan.plan) << " is beaten by no plan of the front";
    }
    EXPECT_EQ(loop.MemoryFront(4).size(), 4u);
    const std::optional<OptionEffect> most = loop.MattersMost();
    ASSERT_TRUE(most);
    EXPECT_GT(most->costs, 0);
    EXPECT_FALSE(most->option->equal(most->instead, all.front().plan));
  }
}

// Where both plans were measured, the cost of an option is that of the measured times.
TEST(SearchLoop, MattersMostComparesMeasuredTimes) {
  const AxisValues space = {{"recompute", {"none"}}, {"zero", {"0"}},        {"tp_overlap", {"1"}},
                            {"grad_overlap", {"0"}}, {"p2p_overlap", {"0"}}, {"sp", {"0"}}};
  auto created =
      SearchLoop::Create({SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8)}, space, {.exhaustive = true});
  ASSERT_TRUE(created.ok()) << created.status();
  SearchLoop loop = *std::move(created);
  ASSERT_TRUE(loop.SetCalibration(std::make_shared<const NominalTimes>(), 0).ok());
  HiddenTruth truth(loop.Ranking(kAll), 3);
  RunStudy(loop, truth);
  std::map<ParallelPlan, double> measured;
  for (const RankedPlan& plan : loop.Ranking(kAll))
    if (plan.median_step_time_s) measured[plan.plan] = *plan.median_step_time_s;
  const ParallelPlan best = loop.Ranking(1).front().plan;
  const std::optional<OptionEffect> most = loop.MattersMost();
  ASSERT_TRUE(most);
  ASSERT_TRUE(measured.contains(most->instead));
  EXPECT_NEAR(most->costs, measured[most->instead] / measured[best] - 1, 1e-9);
  double least_s = std::numeric_limits<double>::infinity();
  for (const auto& [plan, seconds] : measured)
    if (!most->option->equal(plan, best)) least_s = std::min(least_s, seconds);
  EXPECT_EQ(measured[most->instead], least_s) << "the fastest that was measured with another value";
}

// With tens of thousands of plans, the memory per plan is bounded by its record.
TEST(SearchLoop, LargeSpacesArePredicted) {
  ModelSpec model = SmallGpt(128, 2560, 160, 51200);
  ClusterSpec cluster = LocalRanks(8);
  cluster.local = false;
  cluster.groups.front().nodes = 384;
  EXPECT_LE(sizeof(FeasiblePlan), 64u);
  const AxisValues space = {{"zero", {"0"}}, {"recompute", {"none", "full:*"}}};
  auto loop = SearchLoop::Create({model, Fp32(3072, 64), cluster}, space, {.predict_only = true});
  ASSERT_TRUE(loop.ok()) << loop.status();
  ASSERT_TRUE(loop->SetCalibration(std::make_shared<const NominalTimes>(), 0).ok());
  const SearchCounts& counts = loop->counts();
  EXPECT_GT(counts.predicted, 30'000);
  EXPECT_EQ(counts.enumerated, counts.illegal + counts.out_of_memory + counts.predicted);
  EXPECT_EQ(counts.evaluated, counts.predicted);
  const auto ranking = loop->Ranking(100);
  ASSERT_EQ(ranking.size(), 100u);
  for (std::size_t i = 1; i < ranking.size(); ++i) {
    EXPECT_LE(ranking[i - 1].predicted.step_time_s, ranking[i].predicted.step_time_s * (1 + 1e-9));
    EXPECT_NEAR(ranking[i].predicted.breakdown.Total(), ranking[i].predicted.step_time_s,
                1e-9 * ranking[i].predicted.step_time_s);
  }
  EXPECT_TRUE(loop->Next().empty());
}

// The strategy chooses among the fastest plans. The others rank behind them, and an exhaustive search would
// measure them too.
TEST(SearchLoop, RanksPlansBeyondTheCandidatesByPrediction) {
  const ModelSpec model = SmallGpt(288, 128, 16);
  SearchLoop loop = [&] {
    const AxisValues space = {{"sp", {"0"}},
                              {"zero", {"0"}},
                              {"p2p_overlap", {"0"}},
                              {"scatter_gather", {"0", "1"}},
                              {"schedule", {"1f1b"}},
                              {"split", {"even", "auto"}},
                              {"recompute", {"none", "full:*"}}};
    auto made = SearchLoop::Create({model, Fp32(512, 16), LocalRanks(64)}, space, {.max_trials = 3});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }();
  ASSERT_TRUE(loop.SetCalibration(std::make_shared<const NominalTimes>(), 0).ok());
  const auto all = static_cast<std::size_t>(loop.counts().predicted);
  ASSERT_GT(all, kMostCandidates);
  ASSERT_EQ(loop.phase(), SearchPhase::kMeasuring);
  std::map<ParallelPlan, double> before;
  double last = 0;
  for (const RankedPlan& r : loop.Ranking(kAll)) {
    EXPECT_GE(r.predicted.step_time_s, last * (1 - 1e-9)) << "behind the candidates is nothing faster";
    last = before[r.plan] = r.predicted.step_time_s;
  }
  const auto candidates = loop.Ranking(kMostCandidates);
  const auto requests = loop.Next();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests.front().plan, candidates.front().plan);
  for (const TrialRequest& r : requests) {
    EXPECT_LE(r.predicted.step_time_s, candidates.back().predicted.step_time_s) << PlanText(r.plan);
    const double t = 1.2 * r.predicted.step_time_s;
    ASSERT_TRUE(loop.Observe(r.plan, r.repeat, TrialOutcome::kMeasured, {{t, t, t}, 3 * t}).ok());
    before.erase(r.plan);
  }
  const auto ranking = loop.Ranking(kAll);
  EXPECT_EQ(ranking.size(), all);
  std::set<ParallelPlan> distinct;
  for (const RankedPlan& r : ranking) {
    distinct.insert(r.plan);
    EXPECT_GT(r.predicted.step_time_s, 0);
  }
  EXPECT_EQ(distinct.size(), all);
  double seconds = 0;
  for (const auto& [plan, predicted_s] : before) seconds += 3 * predicted_s;
  EXPECT_GT(loop.UnmeasuredDeviceSeconds(), 1.1 * seconds) << "three trials do not take all doubt away";
  EXPECT_LT(loop.UnmeasuredDeviceSeconds(), 1.2 * seconds);
}

// A plan that recomputes more than one that fits is not measured unless the latter fails.
TEST(SearchLoop, SkipsPlansThatOnlyRecomputeMore) {
  SearchLoop loop = Calibrated();
  HiddenTruth truth(loop.Ranking(kAll), 12);
  for (const Step& step : RunStudy(loop, truth))
    EXPECT_EQ(step.plan.recompute, Recompute::kNone) << PlanText(step.plan);

  const AxisValues few = {
      {"tp", {"1"}}, {"pp", {"2"}}, {"mbs", {"1"}}, {"split", {"even"}}, {"p2p_overlap", {"0"}}};
  SearchLoop failing = Calibrated({.max_trials = 400}, few);
  std::set<ParallelPlan> asked;
  while (failing.phase() != SearchPhase::kDone) {
    for (const TrialRequest& r : failing.Next()) {
      if (r.plan.recompute == Recompute::kFull) {
        ParallelPlan less = r.plan;
        --less.recompute_layers;
        if (r.plan.recompute_layers == 0) less.recompute_layers = 12 / 2 / r.plan.virtual_stages - 1;
        if (less.recompute_layers == 0) less.recompute = Recompute::kNone;
        EXPECT_TRUE(asked.contains(less)) << PlanText(r.plan) << " before " << PlanText(less);
      }
      asked.insert(r.plan);
      ASSERT_TRUE(failing.Observe(r.plan, r.repeat, TrialOutcome::kOutOfMemory, {}).ok());
    }
  }
  EXPECT_EQ(failing.counts().rejected.at("measured_out_of_memory"), static_cast<std::int64_t>(asked.size()));
  // All in the end, each at every depth that its stages have.
  std::map<ParallelPlan, std::int64_t> depths;
  for (ParallelPlan plan : asked) {
    plan.recompute = Recompute::kNone;
    plan.recompute_layers = 0;
    ++depths[plan];
  }
  EXPECT_EQ(static_cast<std::int64_t>(depths.size()), failing.counts().predicted);
  for (const auto& [plan, count] : depths)
    EXPECT_EQ(count, 1 + 12 / 2 / plan.virtual_stages) << PlanText(plan);
}

// Among equally fast plans, less memory comes first, wherever the list is cut.
TEST(SearchLoop, PrefersLessMemoryAmongEquallyFastPlans) {
  const AxisValues space = {
      {"tp", {"1"}},       {"pp", {"4"}},           {"mbs", {"1"}},        {"schedule", {"gpipe", "1f1b"}},
      {"split", {"even"}}, {"recompute", {"none"}}, {"p2p_overlap", {"0"}}};
  SearchLoop loop = Loop({.predict_only = true}, LocalRanks(4), Fp32(16, 32), space);
  ASSERT_TRUE(loop.SetCalibration(std::make_shared<const FlatTimes>(), 0).ok());
  const auto ranking = loop.Ranking(kAll);
  ASSERT_EQ(ranking.size(), 2u);
  ASSERT_NEAR(ranking[0].predicted.step_time_s, ranking[1].predicted.step_time_s,
              1e-9 * ranking[1].predicted.step_time_s);
  EXPECT_EQ(ranking[0].plan.schedule, Schedule::kOneFOneB);
  EXPECT_EQ(ranking[1].plan.schedule, Schedule::kGPipe);
  EXPECT_LT(ranking[0].predicted.memory.Total(), ranking[1].predicted.memory.Total());
  EXPECT_EQ(loop.Ranking(1).front().plan, ranking[0].plan);

  // The same plan is measured first.
  SearchLoop measuring = Loop({.max_trials = 1}, LocalRanks(4), Fp32(16, 32), space);
  ASSERT_TRUE(measuring.SetCalibration(std::make_shared<const FlatTimes>(), 0).ok());
  const auto requests = measuring.Next();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests.front().plan, ranking[0].plan);
}

}  // namespace
}  // namespace autocfg
