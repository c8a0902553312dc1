#include "search/planner/search_loop.h"

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/planner/confirmation.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/nominal_times.h"
#include "search/planner/racing_strategy.h"
#include "search/stats/statistics.h"
#include "search/text/plan_text.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using testing::Fp32;
using ::testing::HasSubstr;
using testing::LocalRanks;
using testing::SmallGpt;
using testing::SyntheticDevice;

constexpr std::size_t kAll = 1000000;

SearchLoop Loop(const SearchOptions& options = {}, const ClusterSpec& cluster = LocalRanks(8),
                const Workload& workload = Fp32(16, 32), const AxisValues& space = {}) {
  auto loop = SearchLoop::Create(SmallGpt(12, 128, 8), workload, cluster, space, options);
  EXPECT_TRUE(loop.ok()) << loop.status();
  return *std::move(loop);
}

SearchLoop Calibrated(const SearchOptions& options = {}, const AxisValues& space = {}) {
  SearchLoop loop = Loop(options, LocalRanks(8), Fp32(16, 32), space);
  EXPECT_TRUE(loop.SetCalibration(SyntheticDevice().Measure(loop.CalibrationOps()), 0).ok());
  return loop;
}

// Attention takes a millisecond, all else next to nothing: only the number of layers counts.
class FlatTimes final : public OpTimeModel {
 public:
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    return op.kind == OpKind::kAttentionForward || op.kind == OpKind::kAttentionBackward ? 1e-3 : 1e-12;
  }
};

// The truth of a made-up study: the prediction times hidden factors of the plan's features, and steps that
// scatter in two peaks with 3%.
class HiddenTruth {
 public:
  // `own`: how much each plan deviates by itself.
  HiddenTruth(const std::vector<RankedPlan>& predicted, std::uint64_t seed, double own = 0.015)
      : random_(seed) {
    const double common = 0.2 * Normal(), gpipe = 0.1 * Normal(), full = 0.1 * Normal(),
                 slope = 0.05 * Normal(), stages = 0.05 * Normal();
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, double> layouts;
    std::map<ParallelPlan, double> families;  // plans that differ in recompute alone deviate alike
    for (const RankedPlan& r : predicted) {
      const ParallelPlan& p = r.plan;
      const auto [layout, made] = layouts.try_emplace({p.tp, p.pp, p.dp}, 0);
      if (made) layout->second = 0.1 * Normal();
      ParallelPlan family = p;
      family.recompute = Recompute::kNone;
      family.recompute_layers = 0;
      const auto [deviation, first] = families.try_emplace(family, 0);
      if (first) deviation->second = own * Normal();
      const double log_factor = common + layout->second + (p.schedule == Schedule::kGPipe ? gpipe : 0) +
                                full * r.predicted.breakdown.recompute / r.predicted.breakdown.compute * 3 +
                                slope * std::log2(static_cast<double>(p.micro_batch)) +
                                stages * std::log2(static_cast<double>(p.virtual_stages)) + deviation->second;
      truth_[p] = r.predicted.step_time_s * std::exp(log_factor);
      best_ = std::min(best_, truth_[p]);
    }
  }

  double Of(const ParallelPlan& plan) const { return truth_.at(plan); }
  double best() const { return best_; }

  Sample Measure(const ParallelPlan& plan, int steps = 7) {
    Sample sample;
    for (int i = 0; i < steps; ++i) {
      const double mode =
          random_() % 4 == 0 ? 0.05 : -0.015;  // a fourth of the steps meet something else on the machine
      sample.step_time_s.push_back(Of(plan) * (1 + mode + 0.01 * Normal()));
      sample.device_s += sample.step_time_s.back();
    }
    sample.device_s += 0.5;
    return sample;
  }

 private:
  double Normal() { return normal_(random_); }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::map<ParallelPlan, double> truth_;
  double best_ = std::numeric_limits<double>::infinity();
};

TEST(SearchLoop, CountsAddUp) {
  SearchLoop loop = Loop();
  const SearchCounts before = loop.counts();
  EXPECT_EQ(loop.phase(), SearchPhase::kCalibrating);
  EXPECT_GT(before.predicted, 500);
  EXPECT_EQ(before.enumerated, before.illegal + before.out_of_memory + before.predicted);
  EXPECT_EQ(before.evaluated, 0);
  EXPECT_TRUE(loop.Next().empty());
  ASSERT_TRUE(loop.SetCalibration(SyntheticDevice().Measure(loop.CalibrationOps()), 0).ok());
  EXPECT_EQ(loop.counts().evaluated, before.predicted);
  EXPECT_EQ(loop.phase(), SearchPhase::kMeasuring);
  std::int64_t rejected = 0;
  for (const auto& [reason, count] : before.rejected) rejected += count;
  EXPECT_EQ(rejected, before.illegal + before.out_of_memory);
}

TEST(SearchLoop, MemoryDecidesWhatIsFeasible) {
  const SearchLoop all = Loop();
  std::vector<std::int64_t> needs;
  for (const RankedPlan& r : all.Ranking(kAll)) needs.push_back(r.predicted.memory.Total());
  std::sort(needs.begin(), needs.end());
  const std::int64_t capacity = needs[needs.size() / 2];
  SearchLoop half = Loop({}, LocalRanks(8, 1, capacity));
  const std::int64_t fits = std::upper_bound(needs.begin(), needs.end(), capacity) - needs.begin();
  EXPECT_EQ(half.counts().predicted, fits);
  EXPECT_EQ(half.counts().out_of_memory, static_cast<std::int64_t>(needs.size()) - fits);

  // The device's own bytes, once known, push more plans out.
  const std::int64_t overhead = capacity - needs[needs.size() / 4];
  ASSERT_TRUE(half.SetCalibration(SyntheticDevice().Measure(half.CalibrationOps()), overhead).ok());
  const std::int64_t still =
      std::upper_bound(needs.begin(), needs.end(), capacity - overhead) - needs.begin();
  const SearchCounts& counts = half.counts();
  EXPECT_EQ(counts.predicted, still);
  EXPECT_EQ(counts.rejected.at("out_of_memory"), counts.out_of_memory);
  EXPECT_EQ(counts.enumerated, counts.illegal + counts.out_of_memory + counts.predicted);
  for (const RankedPlan& r : half.Ranking(kAll)) EXPECT_LE(r.predicted.memory.Total(), capacity);

  SearchLoop nothing = Loop({}, LocalRanks(8, 1, 1000));
  EXPECT_EQ(nothing.phase(), SearchPhase::kDone);
  EXPECT_TRUE(nothing.Ranking(kAll).empty());
  EXPECT_EQ(nothing.counts().predicted, 0);
}

TEST(SearchLoop, PredictOnlyEndsWithTheCalibration) {
  SearchLoop loop = Calibrated({.predict_only = true});
  EXPECT_EQ(loop.phase(), SearchPhase::kDone);
  EXPECT_TRUE(loop.Next().empty());
  EXPECT_EQ(loop.TrialsLeft(), 0);
  const auto ranking = loop.Ranking(kAll);
  ASSERT_GT(ranking.size(), 60u);
  for (std::size_t i = 1; i < ranking.size(); ++i) {
    EXPECT_LE(ranking[i - 1].predicted.step_time_s, ranking[i].predicted.step_time_s * (1 + 1e-9));
    EXPECT_LT(ranking[i].predicted.step_time_low_s, ranking[i].predicted.step_time_s);
    EXPECT_GT(ranking[i].predicted.step_time_high_s, ranking[i].predicted.step_time_s);
    EXPECT_NEAR(ranking[i].predicted.breakdown.Total(), ranking[i].predicted.step_time_s, 1e-9);
    EXPECT_FALSE(ranking[i].median_step_time_s.has_value());
  }
}

TEST(SearchLoop, RefusesBadCalibrations) {
  SearchLoop loop = Loop();
  EXPECT_EQ(loop.SetCalibration(OpTimes(), 0).code(), absl::StatusCode::kInvalidArgument);
  OpDesc op = loop.CalibrationOps().front();
  const absl::Status negative = loop.SetCalibration(OpTimes({{op, -1}}), 0);
  EXPECT_EQ(negative.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(negative.message()), HasSubstr(ToString(op)));
  EXPECT_FALSE(loop.SetCalibration(SyntheticDevice().Measure(loop.CalibrationOps()), -5).ok());
  EXPECT_EQ(loop.phase(), SearchPhase::kCalibrating);
  EXPECT_TRUE(loop.SetCalibration(SyntheticDevice().Measure(loop.CalibrationOps()), 0).ok());
  EXPECT_EQ(loop.SetCalibration(OpTimes(), 0).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SearchLoop, RefusesBadInput) {
  const auto create = [](ModelSpec model, Workload workload, ClusterSpec cluster,
                         SearchOptions options = {}) {
    return SearchLoop::Create(model, workload, cluster, {}, options).status();
  };
  ModelSpec bad = SmallGpt();
  bad.hidden = -3;
  EXPECT_EQ(create(bad, Fp32(8, 32), LocalRanks(2)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(SmallGpt(), Fp32(0, 32), LocalRanks(2)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(SmallGpt(), Fp32(8, 32), LocalRanks(0)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(SmallGpt(), Fp32(8, 32), LocalRanks(2), {.max_trials = -1}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create(SmallGpt(), Fp32(8, 32), LocalRanks(2), {.measurable_ranks = -1}).code(),
            absl::StatusCode::kInvalidArgument);
  ModelSpec alibi = SmallGpt();
  alibi.position = Position::kAlibi;
  EXPECT_EQ(create(alibi, Fp32(8, 32), LocalRanks(2)).code(), absl::StatusCode::kUnimplemented);
  const auto with_unfused = [](bool predict_only) {
    return SearchLoop::Create(SmallGpt(), Fp32(8, 32), LocalRanks(2), {{"attention", {"unfused"}}},
                              {.predict_only = predict_only})
        .status();
  };
  EXPECT_EQ(with_unfused(false).code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(with_unfused(true).ok());
}

TEST(SearchLoop, AsksOnceAndOnlyBelievesWhatItAskedFor) {
  SearchLoop loop = Calibrated();
  const auto requests = loop.Next();
  ASSERT_FALSE(requests.empty());
  EXPECT_TRUE(loop.Next().empty()) << "the next decision needs these outcomes";
  const Sample sample{{0.1, 0.11, 0.1}, 1.0};
  EXPECT_FALSE(loop.Observe(requests[0].plan, 1, TrialOutcome::kMeasured, sample).ok());
  ParallelPlan foreign = requests[0].plan;
  foreign.micro_batch = 999;
  EXPECT_EQ(loop.Observe(foreign, 0, TrialOutcome::kMeasured, sample).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(loop.Observe(requests[0].plan, 0, TrialOutcome::kMeasured, {{}, 1}).ok());
  EXPECT_FALSE(loop.Observe(requests[0].plan, 0, TrialOutcome::kMeasured, {{0.1, -1}, 1}).ok());
  EXPECT_TRUE(loop.Observe(requests[0].plan, 0, TrialOutcome::kMeasured, sample).ok());
  EXPECT_FALSE(loop.Observe(requests[0].plan, 0, TrialOutcome::kMeasured, sample).ok()) << "twice";
  EXPECT_EQ(loop.counts().measured, 1);
  const RankedPlan best = loop.Ranking(1).front();
  EXPECT_EQ(best.plan, requests[0].plan) << "measured before predicted";
  EXPECT_DOUBLE_EQ(*best.median_step_time_s, 0.1);
  EXPECT_TRUE(best.ci95_s.has_value());
}

TEST(SearchLoop, FailuresAreCountedAndNotAskedForAgain) {
  SearchLoop loop = Calibrated();
  const TrialOutcome outcomes[] = {TrialOutcome::kOutOfMemory, TrialOutcome::kFailed,
                                   TrialOutcome::kTimedOut};
  std::set<ParallelPlan> failed;
  std::size_t n = 0;
  const SearchCounts before = loop.counts();
  while (loop.phase() != SearchPhase::kDone) {
    for (const TrialRequest& r : loop.Next()) {
      ASSERT_FALSE(failed.contains(r.plan));
      ASSERT_TRUE(loop.Observe(r.plan, r.repeat, outcomes[n++ % 3], {}).ok());
      failed.insert(r.plan);
    }
  }
  const auto& rejected = loop.counts().rejected;
  EXPECT_EQ(rejected.at("measured_out_of_memory") + rejected.at("failed") + rejected.at("timed_out"),
            static_cast<std::int64_t>(n));
  EXPECT_EQ(loop.counts().measured, 0);
  EXPECT_EQ(loop.counts().predicted, before.predicted);
  EXPECT_EQ(loop.Ranking(kAll).size(), static_cast<std::size_t>(before.predicted) - n)
      << "failed plans are not recommended";
}

TEST(SearchLoop, LostTrialsAreAskedForAgainTwice) {
  SearchLoop loop = Calibrated({.max_trials = 2});
  const ParallelPlan unlucky = [&] {
    const auto first = loop.Next();
    EXPECT_EQ(first.size(), 2u);
    EXPECT_TRUE(loop.Observe(first[0].plan, 0, TrialOutcome::kLost, {}).ok());
    EXPECT_TRUE(loop.Observe(first[1].plan, 0, TrialOutcome::kFailed, {}).ok());
    return first[0].plan;
  }();
  int asked = 1;
  for (int round = 0; round < 20 && loop.phase() != SearchPhase::kDone; ++round) {
    for (const TrialRequest& r : loop.Next()) {
      asked += r.plan == unlucky;
      ASSERT_TRUE(loop.Observe(r.plan, r.repeat, TrialOutcome::kCancelled, {}).ok());
    }
  }
  EXPECT_EQ(loop.phase(), SearchPhase::kDone);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(loop.counts().rejected.at("cancelled"), 1);
}

TEST(SearchLoop, StopEndsItAndKeepsWhatIsKnown) {
  SearchLoop loop = Calibrated();
  const auto requests = loop.Next();
  ASSERT_TRUE(loop.Observe(requests[0].plan, 0, TrialOutcome::kMeasured, {{0.2, 0.2, 0.2}, 1}).ok());
  loop.Stop();
  EXPECT_EQ(loop.phase(), SearchPhase::kDone);
  EXPECT_TRUE(loop.Next().empty());
  EXPECT_EQ(loop.TrialsLeft(), 0);
  EXPECT_TRUE(loop.Observe(requests[1].plan, 0, TrialOutcome::kMeasured, {{0.1, 0.1, 0.1}, 1}).ok())
      << "late but true";
  EXPECT_EQ(loop.Ranking(1).front().plan, requests[1].plan);
}

struct Step {
  ParallelPlan plan;
  std::int64_t repeat = 0;
  Sample sample;
};

// Runs a study against a truth; collects what was observed and checks the bounds that every study keeps.
std::vector<Step> RunStudy(SearchLoop& loop, HiddenTruth& truth) {
  std::vector<Step> log;
  while (loop.phase() != SearchPhase::kDone) {
    const std::int64_t left = loop.TrialsLeft();
    const auto requests = loop.Next();
    EXPECT_FALSE(requests.empty());
    if (requests.empty()) break;
    EXPECT_GE(left, static_cast<std::int64_t>(requests.size()));
    for (const TrialRequest& r : requests) {
      EXPECT_EQ(r.repeat > 0, loop.phase() == SearchPhase::kConfirming);
      log.push_back({r.plan, r.repeat, truth.Measure(r.plan)});
    }
    for (std::size_t i = log.size() - requests.size(); i < log.size(); ++i) {
      EXPECT_TRUE(loop.Observe(log[i].plan, log[i].repeat, TrialOutcome::kMeasured, log[i].sample).ok());
    }
  }
  return log;
}

TEST(SearchLoop, ReplayingTheSameOutcomesLeadsToTheSameDecisions) {
  SearchLoop first = Calibrated();
  HiddenTruth truth(first.Ranking(kAll), 77);
  const std::vector<Step> log = RunStudy(first, truth);
  ASSERT_GT(log.size(), 6u);

  // Without asking: a resumed driver only tells what is stored. Then it goes on as the first one did.
  for (const std::size_t known : {log.size(), log.size() / 2, std::size_t{3}}) {
    SearchLoop again = Calibrated();
    std::size_t at = 0;
    for (; at < known; ++at) {
      ASSERT_TRUE(again.Observe(log[at].plan, log[at].repeat, TrialOutcome::kMeasured, log[at].sample).ok())
          << at;
    }
    while (again.phase() != SearchPhase::kDone) {
      for (const TrialRequest& r : again.Next()) {
        ASSERT_LT(at, log.size());
        EXPECT_EQ(r.plan, log[at].plan);
        EXPECT_EQ(r.repeat, log[at].repeat);
        ASSERT_TRUE(again.Observe(r.plan, r.repeat, TrialOutcome::kMeasured, log[at].sample).ok());
        ++at;
      }
    }
    EXPECT_EQ(at, log.size());
    const auto a = first.Ranking(kAll), b = again.Ranking(kAll);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].plan, b[i].plan);
      EXPECT_EQ(a[i].predicted.step_time_s, b[i].predicted.step_time_s);
    }
  }
}

TEST(SearchLoop, ExhaustiveMeasuresEveryPlan) {
  SearchLoop loop = Calibrated({.exhaustive = true}, {{"recompute", {"none", "full"}}, {"vpp", {"1", "3"}}});
  HiddenTruth truth(loop.Ranking(kAll), 5);
  RunStudy(loop, truth);
  EXPECT_EQ(loop.counts().measured, loop.counts().predicted);
  EXPECT_EQ(loop.UnmeasuredDeviceSeconds(), 0);
  const auto ranking = loop.Ranking(kAll);
  EXPECT_LE(truth.Of(ranking[0].plan), truth.best() * 1.03);
}

// What is shown, measured and recommended is complete, and no two plans are the same.
TEST(SearchLoop, SplitsAreDefinite) {
  SearchLoop loop = Calibrated();
  std::set<ParallelPlan> plans;
  int uneven = 0;
  for (const RankedPlan& r : loop.Ranking(kAll)) {
    EXPECT_NE(r.plan.split, SplitMode::kAuto);
    EXPECT_TRUE(plans.insert(r.plan).second) << PlanText(r.plan);
    EXPECT_FALSE(FindIllegality(SmallGpt(12, 128, 8), Fp32(16, 32), 8, r.plan)) << PlanText(r.plan);
    uneven += r.plan.split == SplitMode::kExplicit;
  }
  EXPECT_GT(uneven, 20);
  EXPECT_EQ(loop.counts().predicted, static_cast<std::int64_t>(plans.size()));
  for (const TrialRequest& r : loop.Next()) EXPECT_TRUE(plans.contains(r.plan));

  // Other times, other splits: with an output layer that costs next to nothing, even ones remain where they
  // divide.
  auto made = SearchLoop::Create(SmallGpt(12, 128, 8, 20000), Fp32(16, 32), LocalRanks(8), {}, {});
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

TEST(SearchLoop, AnAutomaticSplitAloneStaysWhereItComesOutEven) {
  const AxisValues only_auto = {
      {"split", {"auto"}}, {"pp", {"2"}}, {"vpp", {"1", "3"}}, {"recompute", {"none"}}};
  SearchLoop loop = Loop({}, LocalRanks(8), Fp32(16, 32), only_auto);
  ASSERT_TRUE(loop.SetCalibration(std::make_shared<const FlatTimes>(), 0).ok());
  const auto ranking = loop.Ranking(kAll);
  ASSERT_FALSE(ranking.empty());
  for (const RankedPlan& r : ranking) EXPECT_EQ(r.plan.split, SplitMode::kEven);
}

// A described cluster hands its model over: there is no calibration job.
TEST(SearchLoop, TakesTheModelOfADescribedCluster) {
  ClusterSpec cluster = LocalRanks(8);
  cluster.local = false;
  cluster.groups.front().device.overhead_bytes = 1000;
  auto loop = SearchLoop::Create(SmallGpt(12, 128, 8), Fp32(16, 32), cluster, {}, {.predict_only = true});
  ASSERT_TRUE(loop.ok()) << loop.status();
  EXPECT_EQ(loop->Ranking(1).front().predicted.memory.device_overhead, 1000);
  ASSERT_TRUE(loop->SetCalibration(std::make_shared<const NominalTimes>(), 1000).ok());
  EXPECT_EQ(loop->phase(), SearchPhase::kDone);
  EXPECT_EQ(loop->Ranking(1).front().predicted.memory.device_overhead, 1000);
  EXPECT_GT(loop->Ranking(1).front().predicted.step_time_s, 0);
}

// A space of tens of thousands of plans: what each takes is bounded by its record.
TEST(SearchLoop, LargeSpacesArePredicted) {
  ModelSpec model = SmallGpt(128, 2560, 160, 51200);
  ClusterSpec cluster = LocalRanks(8);
  cluster.local = false;
  cluster.groups.front().nodes = 384;
  EXPECT_LE(sizeof(FeasiblePlan), 64u);
  auto loop = SearchLoop::Create(model, Fp32(3072, 64), cluster, {}, {.predict_only = true});
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

// The strategy chooses among the fastest; the others stand behind them, and an exhaustive search would
// measure them too.
TEST(SearchLoop, BeyondTheCandidatesPlansAreRankedByPrediction) {
  const ModelSpec model = SmallGpt(288, 128, 16);
  SearchLoop loop = [&] {
    auto made = SearchLoop::Create(model, Fp32(512, 16), LocalRanks(64), {}, {.max_trials = 3});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }();
  ASSERT_TRUE(loop.SetCalibration(std::make_shared<const NominalTimes>(), 0).ok());
  const auto all = static_cast<std::size_t>(loop.counts().predicted);
  ASSERT_GT(all, kMostCandidates);
  ASSERT_EQ(loop.phase(), SearchPhase::kMeasuring);
  for (const TrialRequest& r : loop.Next()) {
    const double t = 1.2 * r.predicted.step_time_s;
    ASSERT_TRUE(loop.Observe(r.plan, r.repeat, TrialOutcome::kMeasured, {{t, t, t}, 3 * t}).ok());
  }
  const auto ranking = loop.Ranking(kAll);
  EXPECT_EQ(ranking.size(), all);
  std::set<ParallelPlan> distinct;
  for (const RankedPlan& r : ranking) {
    distinct.insert(r.plan);
    EXPECT_GT(r.predicted.step_time_s, 0);
  }
  EXPECT_EQ(distinct.size(), all);
  EXPECT_GT(loop.UnmeasuredDeviceSeconds(), 0);
}

// What recomputes more than a plan that fits is not measured, unless that one fails.
TEST(SearchLoop, DoesNotMeasureWhatOnlyRecomputesMore) {
  SearchLoop loop = Calibrated();
  HiddenTruth truth(loop.Ranking(kAll), 12);
  for (const Step& step : RunStudy(loop, truth))
    EXPECT_EQ(step.plan.recompute, Recompute::kNone) << PlanText(step.plan);

  SearchLoop failing =
      Calibrated({.max_trials = 60}, {{"tp", {"1"}}, {"pp", {"2"}}, {"mbs", {"1"}}, {"split", {"even"}}});
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
  EXPECT_EQ(failing.counts().rejected.at("measured_out_of_memory"), failing.counts().predicted)
      << "all in the end";
}

// The example of the README: about ten plans measured.
TEST(SearchLoop, TheExampleStaysSmall) {
  ModelSpec tiny = SmallGpt(4, 128, 4, 1024);
  std::int64_t measured = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto loop = SearchLoop::Create(tiny, Fp32(48, 64), LocalRanks(4), {}, {});
    ASSERT_TRUE(loop.ok()) << loop.status();
    ASSERT_TRUE(loop->SetCalibration(SyntheticDevice().Measure(loop->CalibrationOps()), 0).ok());
    HiddenTruth truth(loop->Ranking(kAll), 300 + seed);
    RunStudy(*loop, truth);
    measured += loop->counts().measured;
  }
  ::testing::Test::RecordProperty("measured_of_20_studies", static_cast<int>(measured));
  EXPECT_LE(measured, 20 * 14);
  EXPECT_GE(measured, 20 * 6);
}

// A slice takes what its own ops take, times a hidden factor; the whole step is that, and messages and
// bubbles as predicted.
TEST(SearchLoop, MeasuresSlicesOfPlansLargerThanTheMachine) {
  SearchLoop loop = Calibrated({.measurable_ranks = 4});
  CostModel costs(SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8),
                  SyntheticDevice().Measure(Loop().CalibrationOps()));
  std::map<ParallelPlan, double> predicted;
  for (const RankedPlan& r : loop.Ranking(kAll)) predicted[r.plan] = r.predicted.step_time_s;
  std::map<ParallelPlan, double> expected;  // the step as its slice corrects it
  int rounds = 0;
  while (loop.phase() != SearchPhase::kDone) {
    ++rounds;
    for (const TrialRequest& r : loop.Next()) {
      ASSERT_TRUE(r.slice.has_value());
      EXPECT_EQ(r.repeat, 0) << "no confirmation among slices";
      EXPECT_EQ(r.slice->tensor, 0);
      EXPECT_EQ(*r.slice, ChooseSlice(costs, r.plan));
      const double slice = SliceSeconds(costs, r.plan, r.slice->pipeline);
      const double took = slice * (r.plan.tp > 1 ? 1.5 : 1.1);
      EXPECT_FALSE(loop.Observe(r.plan, 0, TrialOutcome::kMeasured, {{took, took, took}, 1.0, false}).ok())
          << "a slice was asked for";
      ASSERT_TRUE(loop.Observe(r.plan, 0, TrialOutcome::kMeasured, {{took, took, took}, 1.0, true}).ok());
      expected[r.plan] = took - slice;
    }
  }
  EXPECT_GT(rounds, 1);
  EXPECT_EQ(loop.counts().slices, loop.counts().measured);
  EXPECT_EQ(loop.counts().slices, static_cast<std::int64_t>(expected.size()));
  const auto ranking = loop.Ranking(kAll);
  double last = 0;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const RankedPlan& r = ranking[i];
    EXPECT_EQ(r.slice, expected.contains(r.plan));
    EXPECT_GE(r.predicted.step_time_s, last * (1 - 1e-9)) << "all are predictions, on one scale";
    last = r.predicted.step_time_s;
    EXPECT_FALSE(r.median_step_time_s.has_value()) << "a slice is not a measured step";
    EXPECT_EQ(r.slice_step_time_s.has_value(), r.slice);
    if (!r.slice) continue;
    const double raw = predicted.at(r.plan);
    EXPECT_NEAR(r.predicted.step_time_s, raw + expected.at(r.plan), 1e-9 * raw);
    EXPECT_NEAR(r.predicted.breakdown.Total(), r.predicted.step_time_s, 1e-9 * raw);
    EXPECT_LT(r.predicted.step_time_low_s, r.predicted.step_time_s);
    EXPECT_GT(r.predicted.step_time_high_s, r.predicted.step_time_s);
  }
  EXPECT_TRUE(ranking.front().slice) << "the race ends when nothing unmeasured may be faster";
  EXPECT_EQ(ranking.front().plan.tp, 1) << "slices of tp=2 and more came out half as slow again";
  EXPECT_GT(loop.UnmeasuredDeviceSeconds(), 0);
}

// A search that is cut short: slices came out twice as slow as predicted. What they teach moves all
// predictions, and the fastest by prediction is the answer whether a slice of it was measured or not; none
// that recomputes more of the same passes it.
TEST(SearchLoop, FewSlicesRecalibrateAllPredictions) {
  SearchLoop loop = Calibrated({.max_trials = 3, .measurable_ranks = 4});
  CostModel costs(SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8),
                  SyntheticDevice().Measure(Loop().CalibrationOps()));
  std::map<ParallelPlan, double> before;
  for (const RankedPlan& r : loop.Ranking(kAll)) before[r.plan] = r.predicted.step_time_s;
  double factor = 2.5;  // the one with the best chance comes out worst
  while (loop.phase() != SearchPhase::kDone) {
    for (const TrialRequest& r : loop.Next()) {
      const double took = factor * SliceSeconds(costs, r.plan, r.slice->pipeline);
      factor = 2;
      ASSERT_TRUE(loop.Observe(r.plan, 0, TrialOutcome::kMeasured, {{took, took, took}, 1.0, true}).ok());
    }
  }
  EXPECT_EQ(loop.counts().slices, 3);
  const auto ranking = loop.Ranking(kAll);
  std::map<ParallelPlan, double> after;
  std::size_t slower = 0;
  for (const RankedPlan& r : ranking) {
    EXPECT_GE(r.predicted.step_time_s, ranking.front().predicted.step_time_s * (1 - 1e-9))
        << PlanText(r.plan);
    slower += r.predicted.step_time_s > 1.1 * before.at(r.plan);
    after[r.plan] = r.predicted.step_time_s;
  }
  EXPECT_EQ(slower, ranking.size());
  for (const auto& [plan, seconds] : after) {
    ParallelPlan less = plan;
    less.recompute = Recompute::kNone;
    less.recompute_layers = 0;
    if (const auto found = after.find(less); found != after.end()) {
      EXPECT_GE(seconds, found->second * (1 - 1e-9)) << PlanText(plan);
    }
  }
}

// Plans that take the same time: less memory comes first, wherever the list is cut.
TEST(SearchLoop, OfEquallyFastPlansTheSmallerComesFirst) {
  const AxisValues space = {{"tp", {"1"}},  {"pp", {"4"}},       {"mbs", {"1"}},
                            {"vpp", {"1"}}, {"split", {"even"}}, {"recompute", {"none"}}};
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

  // And it is the one that is measured first.
  SearchLoop measuring = Loop({.max_trials = 1}, LocalRanks(4), Fp32(16, 32), space);
  ASSERT_TRUE(measuring.SetCalibration(std::make_shared<const FlatTimes>(), 0).ok());
  const auto requests = measuring.Next();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests.front().plan, ranking[0].plan);
}

TEST(SearchLoop, WhatFitsTheMachineIsNotSliced) {
  SearchLoop loop = Calibrated({.measurable_ranks = 8});
  const auto requests = loop.Next();
  ASSERT_FALSE(requests.empty());
  for (const TrialRequest& r : requests) EXPECT_FALSE(r.slice.has_value());
  EXPECT_FALSE(loop.Observe(requests[0].plan, 0, TrialOutcome::kMeasured, {{0.1, 0.1}, 1.0, true}).ok());
  EXPECT_TRUE(loop.Observe(requests[0].plan, 0, TrialOutcome::kMeasured, {{0.1, 0.1}, 1.0, false}).ok());
  EXPECT_EQ(loop.counts().slices, 0);
}

TEST(SearchLoop, ForeseesWhatAnExhaustiveSearchWouldTake) {
  SearchLoop loop = Calibrated();
  EXPECT_EQ(loop.UnmeasuredDeviceSeconds(), 0);
  HiddenTruth truth(loop.Ranking(kAll), 6);
  RunStudy(loop, truth);
  double unmeasured = 0;
  for (const RankedPlan& r : loop.Ranking(kAll)) {
    if (!r.median_step_time_s) unmeasured += 0.5 + 7 * truth.Of(r.plan);
  }
  ASSERT_GT(unmeasured, 0);
  EXPECT_NEAR(loop.UnmeasuredDeviceSeconds() / unmeasured, 1, 0.1);
}

struct StudyFigures {
  int good = 0;  // studies whose choice is within the tolerance of the truly best plan
  int inside = 0,
      announced = 0;  // first trials whose true time lay in the interval that they were announced with
  std::int64_t measured = 0;
};

StudyFigures MadeUpStudies(std::uint64_t studies, double own, double tolerance) {
  StudyFigures figures;
  const OpTimes times = SyntheticDevice().Measure(Loop().CalibrationOps());
  for (std::uint64_t study = 0; study < studies; ++study) {
    SearchLoop loop = Loop();
    EXPECT_TRUE(loop.SetCalibration(times, 0).ok());
    HiddenTruth truth(loop.Ranking(kAll), 1000 + study, own);
    std::int64_t trials = 0;
    while (loop.phase() != SearchPhase::kDone) {
      for (const TrialRequest& r : loop.Next()) {
        if (r.repeat == 0) {
          const double t = truth.Of(r.plan);
          figures.inside += r.predicted.step_time_low_s <= t && t <= r.predicted.step_time_high_s;
          ++figures.announced;
        }
        ++trials;
        EXPECT_TRUE(loop.Observe(r.plan, r.repeat, TrialOutcome::kMeasured, truth.Measure(r.plan)).ok());
      }
    }
    EXPECT_LE(loop.counts().measured, kMostRaced);
    EXPECT_LE(trials, kMostRaced + kMostConfirmations);
    figures.measured += loop.counts().measured;
    figures.good += truth.Of(loop.Ranking(1).front().plan) <= (1 + tolerance) * truth.best();
  }
  ::testing::Test::RecordProperty("good", figures.good);
  ::testing::Test::RecordProperty("inside_percent", 100 * figures.inside / figures.announced);
  ::testing::Test::RecordProperty("measured_per_study",
                                  static_cast<int>(figures.measured) / static_cast<int>(studies));
  return figures;
}

// 200 made-up studies: the choice is within 2% of the truly best plan in at least 95% of them, with at most
// 24 plans measured; and the 90% intervals that trials were announced with hold 80 to 99% of the true times.
TEST(SearchLoop, RegretAndCoverage) {
  const StudyFigures figures = MadeUpStudies(200, 0.015, 0.02);
  EXPECT_GE(figures.good, 190);
  EXPECT_GE(figures.inside, 0.80 * figures.announced);
  EXPECT_LE(figures.inside, 0.99 * figures.announced);
}

// Plans that deviate by 6% each on their own, which no feature explains: within 5% in at least 95 of 100, and
// the intervals grow with it.
TEST(SearchLoop, RegretWhenFeaturesExplainLess) {
  const StudyFigures figures = MadeUpStudies(100, 0.06, 0.05);
  EXPECT_GE(figures.good, 95);
  EXPECT_GE(figures.inside, 0.80 * figures.announced);
  EXPECT_LE(figures.inside, 0.99 * figures.announced);
}

}  // namespace
}  // namespace autocfg
