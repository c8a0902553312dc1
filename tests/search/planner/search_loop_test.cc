// Tests the search as a state machine: the inputs it accepts and rejects, the trials it asks for, and how it
// handles outcomes.
#include "search/planner/search_loop.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/cost/op_times/nominal_times.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/search/planner/made_up_study.h"
#include "tests/search/space/small_spaces.h"

namespace autocfg {
namespace {

using test::Calibrated;
using test::Fp32;
using test::HiddenTruth;
using test::kAll;
using test::LocalRanks;
using test::Loop;
using test::RunStudy;
using test::SmallGpt;
using test::Step;
using test::SyntheticDevice;
using ::testing::HasSubstr;

TEST(SearchLoop, CountsAddUp) {
  SearchLoop loop = Loop({}, LocalRanks(8), Fp32(16, 32), test::EveryDerivedValue());
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

TEST(SearchLoop, FeasibilityDependsOnMemory) {
  const AxisValues every_depth = {{"recompute", {"none", "full:*"}}};
  const SearchLoop all = Loop({}, LocalRanks(8), Fp32(16, 32), every_depth);
  std::vector<std::int64_t> needs;
  for (const RankedPlan& r : all.Ranking(kAll)) needs.push_back(r.predicted.memory.Total());
  std::sort(needs.begin(), needs.end());
  const std::int64_t capacity = needs[needs.size() / 2];
  SearchLoop half = Loop({}, LocalRanks(8, 1, capacity), Fp32(16, 32), every_depth);
  const std::int64_t fits = std::upper_bound(needs.begin(), needs.end(), capacity) - needs.begin();
  EXPECT_EQ(half.counts().predicted, fits);
  EXPECT_EQ(half.counts().out_of_memory, static_cast<std::int64_t>(needs.size()) - fits);

  // Once the device's overhead is known, fewer plans fit.
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

// A described cluster supplies its model: there is no calibration job.
TEST(SearchLoop, AcceptsTheModelOfADescribedCluster) {
  ClusterSpec cluster = LocalRanks(8);
  cluster.local = false;
  cluster.groups.front().device.overhead_bytes = 1000;
  auto loop = SearchLoop::Create({SmallGpt(12, 128, 8), Fp32(16, 32), cluster}, {}, {.predict_only = true});
  ASSERT_TRUE(loop.ok()) << loop.status();
  EXPECT_EQ(loop->Ranking(1).front().predicted.memory.device_overhead, 1000);
  ASSERT_TRUE(loop->SetCalibration(std::make_shared<const NominalTimes>(), 1000).ok());
  EXPECT_EQ(loop->phase(), SearchPhase::kDone);
  EXPECT_EQ(loop->Ranking(1).front().predicted.memory.device_overhead, 1000);
  EXPECT_GT(loop->Ranking(1).front().predicted.step_time_s, 0);
}

TEST(SearchLoop, RejectsBadCalibrations) {
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

TEST(SearchLoop, RejectsBadInput) {
  const auto create = [](const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                         const SearchOptions& options = {}) {
    return SearchLoop::Create({model, workload, cluster}, {}, options).status();
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
  ModelSpec scaled = SmallGpt();
  scaled.position = Position::kRope;
  scaled.rope_scaling = RopeScaling::kDynamic;  // without its parameters
  EXPECT_EQ(create(scaled, Fp32(8, 32), LocalRanks(2)).code(), absl::StatusCode::kUnimplemented);
}

TEST(SearchLoop, AsksOnceAndRejectsUnknownTrials) {
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
}

TEST(SearchLoop, FailedPlansAreCountedAndNotRetried) {
  SearchLoop loop = Calibrated({}, {{"recompute", {"none", "full:*"}}});
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

TEST(SearchLoop, LostTrialsAreRetriedTwice) {
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
      ASSERT_TRUE(loop.Observe(r.plan, r.repeat, TrialOutcome::kLost, {}).ok());
    }
  }
  EXPECT_EQ(loop.phase(), SearchPhase::kDone);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(loop.counts().rejected.at("lost"), 1);
}

// Runs a search in which the first best plan's repeats end with `outcome`, while all other trials are
// measured. Returns that plan and counts its repeats.
ParallelPlan WhoseRepeatsEnd(TrialOutcome outcome, SearchLoop& loop, int& asked) {
  HiddenTruth truth(loop.Ranking(kAll), 77);
  std::optional<ParallelPlan> best;
  while (loop.phase() != SearchPhase::kDone) {
    for (const TrialRequest& r : loop.Next()) {
      if (r.repeat > 0 && !best) best = loop.Ranking(1).front().plan;
      if (r.repeat > 0 && r.plan == *best) {
        ++asked;
        EXPECT_TRUE(loop.Observe(r.plan, r.repeat, outcome, {}).ok());
      } else {
        EXPECT_TRUE(loop.Observe(r.plan, r.repeat, TrialOutcome::kMeasured, truth.Measure(r.plan)).ok());
      }
    }
  }
  EXPECT_TRUE(best.has_value()) << "nothing was repeated";
  return *best;
}

TEST(SearchLoop, PlanThatFailsARepeatIsNotRecommended) {
  for (const auto& [outcome, reason] :
       {std::pair(TrialOutcome::kOutOfMemory, "measured_out_of_memory"),
        std::pair(TrialOutcome::kFailed, "failed"), std::pair(TrialOutcome::kTimedOut, "timed_out")}) {
    SCOPED_TRACE(reason);
    SearchLoop loop = Calibrated();
    int asked = 0;
    const ParallelPlan best = WhoseRepeatsEnd(outcome, loop, asked);
    EXPECT_EQ(asked, 1) << "its repeat is not asked for again";
    for (const RankedPlan& r : loop.Ranking(kAll)) EXPECT_NE(r.plan, best);
    EXPECT_EQ(loop.counts().rejected.at(reason), 1);
  }
}

TEST(SearchLoop, PlanWithLostRepeatsKeepsItsMeasurement) {
  SearchLoop loop = Calibrated();
  int asked = 0;
  const ParallelPlan best = WhoseRepeatsEnd(TrialOutcome::kLost, loop, asked);
  EXPECT_EQ(asked, 3) << "asked for again twice, as a first trial is";
  const std::vector<RankedPlan> ranking = loop.Ranking(kAll);
  const auto it = std::find_if(ranking.begin(), ranking.end(), [&](const auto& r) { return r.plan == best; });
  ASSERT_NE(it, ranking.end());
  EXPECT_TRUE(it->median_step_time_s.has_value());
  EXPECT_FALSE(loop.counts().rejected.contains("lost"));
}

TEST(SearchLoop, StopKeepsResults) {
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

// A search that is stopped in the middle of a round shows predictions that its measurements correct. What was
// announced of the round's other trials stays.
TEST(SearchLoop, OutcomesInTheMiddleOfARoundCorrectPredictions) {
  SearchLoop loop = Calibrated(), replayed = Calibrated();
  const auto requests = loop.Next();
  ASSERT_GT(requests.size(), 1u);
  const double slow_s = 5 * requests[0].predicted.step_time_s;
  const Sample slow{{slow_s, slow_s, slow_s}, 1};
  for (SearchLoop* each : {&loop, &replayed})
    ASSERT_TRUE(each->Observe(requests[0].plan, 0, TrialOutcome::kMeasured, slow).ok());
  EXPECT_NE(loop.phase(), SearchPhase::kDone);
  const RankedPlan measured = loop.Ranking(1).front();
  ASSERT_EQ(measured.plan, requests[0].plan);
  EXPECT_NEAR(measured.predicted.step_time_s / slow_s, 1, 0.3);

  const auto rest = replayed.Next();  // which the replay had skipped
  ASSERT_EQ(rest.size() + 1, requests.size());
  for (std::size_t i = 0; i < rest.size(); ++i) {
    EXPECT_EQ(rest[i].plan, requests[i + 1].plan);
    EXPECT_EQ(rest[i].predicted.step_time_s, requests[i + 1].predicted.step_time_s);
    EXPECT_EQ(rest[i].predicted.hidden_comm_s, requests[i + 1].predicted.hidden_comm_s);
  }
}

TEST(SearchLoop, ReplayingTheSameOutcomesLeadsToTheSameDecisions) {
  SearchLoop first = Calibrated();
  HiddenTruth truth(first.Ranking(kAll), 77);
  const std::vector<Step> log = RunStudy(first, truth);
  ASSERT_GT(log.size(), 6u);

  // A resumed driver reports stored outcomes without asking for trials. Then the search continues as the
  // first one did.
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
      EXPECT_EQ(a[i].predicted.hidden_comm_s, b[i].predicted.hidden_comm_s);
    }
  }
}

// The prediction of a measured plan is compared with its measurement part by part. A recalibration scales all
// of it.
TEST(SearchLoop, PredictsTheHiddenCommunicationOfPlansThatItMeasures) {
  SearchLoop loop = Calibrated({}, {{"pp", {"4"}}});
  const auto requests = loop.Next();
  ASSERT_FALSE(requests.empty());
  const TrialRequest& asked = requests.front();
  ASSERT_TRUE(asked.predicted.hidden_comm_s.has_value());
  EXPECT_GT(*asked.predicted.hidden_comm_s, 0);
  EXPECT_LT(*asked.predicted.hidden_comm_s, asked.predicted.step_time_s);
  for (const TrialRequest& request : requests) {
    const double slow_s = 2 * request.predicted.step_time_s;
    ASSERT_TRUE(loop.Observe(request.plan, 0, TrialOutcome::kMeasured, {{slow_s, slow_s, slow_s}, 1}).ok());
  }
  const auto ranking = loop.Ranking(kAll);
  EXPECT_FALSE(ranking.back().predicted.hidden_comm_s.has_value()) << "nobody measures it";
  const auto found = std::ranges::find(ranking, asked.plan, &RankedPlan::plan);
  ASSERT_NE(found, ranking.end());
  const Prediction& after = found->predicted;
  EXPECT_GT(after.step_time_s, 1.1 * asked.predicted.step_time_s);
  EXPECT_NEAR(*after.hidden_comm_s / after.step_time_s,
              *asked.predicted.hidden_comm_s / asked.predicted.step_time_s, 1e-12);
}

TEST(SearchLoop, StopsPlanningWhenTheWatchSaysNo) {
  bool go_on = true;
  const auto create = [&] {
    return SearchLoop::Create({SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8)}, {}, {},
                              [&](const PlanningProgress&) { return go_on; });
  };
  auto loop = create();
  ASSERT_TRUE(loop.ok()) << loop.status();
  const OpTimes times = SyntheticDevice().Measure(loop->CalibrationOps());
  go_on = false;
  EXPECT_TRUE(absl::IsCancelled(create().status()));
  EXPECT_TRUE(absl::IsCancelled(loop->SetCalibration(times, 0)));
  EXPECT_EQ(loop->phase(), SearchPhase::kCalibrating) << "nothing has changed";
  go_on = true;
  EXPECT_TRUE(loop->SetCalibration(times, 0).ok());
}

TEST(SearchLoop, SaysWhatTheBudgetLeftOut) {
  const auto left_out = [](const PlanningBudget& budget) {
    SearchOptions options;
    options.budget = budget;
    const AxisValues space = {{"p2p_overlap", {"0"}}};
    const auto loop = SearchLoop::Create({SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8)}, space, options);
    EXPECT_TRUE(loop.ok()) << loop.status();
    return loop.ok() ? loop->LeftOut() : "";
  };
  EXPECT_EQ(left_out({}), "");
  EXPECT_THAT(left_out({.plans = 10}), HasSubstr("cut off at tp=1, pp="));
  EXPECT_THAT(left_out({.bytes = 1000}), HasSubstr("cut off at tp=1, pp="));
}

enum class Subject : std::uint8_t { kFirst, kBest };  // the first plan of the first round, the fastest one

// Runs a search in which one plan takes `shares` of its true time, one trial after the other, and its true
// time afterwards. All other plans take their true times.
struct DoubtedStudy {
  explicit DoubtedStudy(std::vector<double> given, Subject subject = Subject::kFirst)
      : loop(Calibrated()), shares(std::move(given)) {
    HiddenTruth truth(loop.Ranking(kAll), 91);
    std::optional<ParallelPlan> chosen;
    for (const RankedPlan& r : loop.Ranking(kAll)) {
      if (subject == Subject::kBest && (!chosen || truth.Of(r.plan) < truth.Of(*chosen))) chosen = r.plan;
    }
    while (loop.phase() != SearchPhase::kDone) {
      const std::vector<TrialRequest> requests = loop.Next();
      if (requests.empty()) {
        ADD_FAILURE() << "nothing is asked for";
        return;
      }
      for (const TrialRequest& r : requests) {
        if (!chosen) chosen = r.plan;
        plan = *chosen;
        Sample sample = truth.Measure(r.plan);
        if (r.plan == plan) {
          const std::size_t trial = asked.size();
          asked.push_back(r);
          for (double& step : sample.step_time_s) step *= trial < shares.size() ? shares[trial] : 1;
        }
        EXPECT_TRUE(loop.Observe(r.plan, r.repeat, TrialOutcome::kMeasured, sample).ok());
      }
    }
    for (const RankedPlan& r : loop.Ranking(kAll)) {
      if (r.plan == plan) ranked = r;
    }
    true_s = truth.Of(plan);
  }

  SearchLoop loop;
  std::vector<double> shares;
  ParallelPlan plan;
  std::vector<TrialRequest> asked;  // of that plan
  std::optional<RankedPlan> ranked;
  double true_s = 0;
};

TEST(SearchLoop, DoubtsAMeasurementThatIsFarTooFast) {
  const DoubtedStudy study({0.001});
  ASSERT_GE(study.asked.size(), 2u);
  EXPECT_FALSE(study.asked[0].doubted);
  EXPECT_EQ(study.asked[1].repeat, 1);
  EXPECT_EQ(study.asked[1].doubted, 0) << "another worker shall repeat it";
  ASSERT_TRUE(study.ranked);
  ASSERT_TRUE(study.ranked->median_step_time_s);
  EXPECT_NEAR(*study.ranked->median_step_time_s, study.true_s, 0.1 * study.true_s);
  EXPECT_THAT(study.ranked->trials, ::testing::Contains(1));
  EXPECT_THAT(study.ranked->trials, ::testing::Not(::testing::Contains(0)));
  EXPECT_FALSE(study.loop.counts().rejected.contains("implausible"));
}

TEST(SearchLoop, BelievesAMeasurementThatAnotherConfirms) {
  const DoubtedStudy study({0.001, 0.0012, 0.001, 0.001, 0.001, 0.001});
  ASSERT_TRUE(study.ranked);
  ASSERT_TRUE(study.ranked->median_step_time_s);
  EXPECT_LT(*study.ranked->median_step_time_s, 0.002 * study.true_s);
  EXPECT_EQ(study.loop.Ranking(1).front().plan, study.plan);
  ASSERT_GE(study.ranked->trials.size(), 2u);
  EXPECT_EQ(study.ranked->trials[0], 0);
  EXPECT_EQ(study.ranked->trials[1], 1);
}

TEST(SearchLoop, GivesUpAPlanWhoseMeasurementsDoNotAgree) {
  const DoubtedStudy study({0.001, 0.01, 0.0001});
  EXPECT_EQ(study.asked.size(), 3u);
  EXPECT_FALSE(study.ranked) << "it is out of the ranking";
  EXPECT_EQ(study.loop.counts().rejected.at("implausible"), 1);
}

TEST(SearchLoop, RepetitionThatIsFarTooFastDoesNotCount) {
  const DoubtedStudy study({1, 0.001, 0.001}, Subject::kBest);
  ASSERT_GE(study.asked.size(), 4u) << "the plan is one of those that are confirmed";
  EXPECT_EQ(study.asked[2].doubted, 1);
  EXPECT_EQ(study.asked[3].doubted, 2);
  ASSERT_TRUE(study.ranked);
  ASSERT_TRUE(study.ranked->median_step_time_s);
  EXPECT_NEAR(*study.ranked->median_step_time_s, study.true_s, 0.1 * study.true_s);
  EXPECT_THAT(study.ranked->trials, ::testing::Not(::testing::Contains(1)));
  EXPECT_THAT(study.ranked->trials, ::testing::Not(::testing::Contains(2)));
  EXPECT_THAT(study.ranked->trials, ::testing::Contains(3));
}

TEST(SearchLoop, MeasuredPlanStaysWhenItsRepetitionsAreDoubted) {
  const DoubtedStudy study({1, 0.001, 0.001, 0.001, 0.001, 0.001}, Subject::kBest);
  EXPECT_EQ(study.asked.size(), 4u);
  ASSERT_TRUE(study.ranked);
  EXPECT_THAT(study.ranked->trials, ::testing::ElementsAre(0));
  EXPECT_FALSE(study.loop.counts().rejected.contains("implausible"));
}

TEST(SearchLoop, EstimatesTheCostOfAnExhaustiveSearch) {
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

}  // namespace
}  // namespace autocfg
