#include "proto/merge_results.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/statistics.h"
#include "gtest/gtest.h"

namespace autocfg {
namespace {

// Returns a worker's measurement of `ranks` (step times by rank), limited to fields that derive from steps.
v1::Measurement OfRanks(const std::vector<std::vector<double>>& ranks, double wall_s) {
  v1::Measurement measurement;
  std::vector<double> slowest(ranks[0].size());
  for (const auto& steps : ranks) {
    for (std::size_t i = 0; i < steps.size(); ++i) slowest[i] = std::max(slowest[i], steps[i]);
  }
  measurement.mutable_step_time_s()->Assign(slowest.begin(), slowest.end());
  measurement.set_median_step_time_s(base::Median(slowest));
  measurement.set_ci95_s(base::MedianCi95(slowest).value_or(base::Median(slowest)));
  measurement.set_device_s(static_cast<double>(ranks.size()) * wall_s);
  return measurement;
}

TEST(MergeResults, EqualsResultOfOneWorkerWithAllRanks) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0.1, 2);
  for (const std::size_t steps : {1u, 2u, 5u, 30u}) {
    for (const std::vector<std::size_t>& shares :
         {std::vector<std::size_t>{4}, {2, 2}, {3, 1}, {1, 1, 1, 1}, {1, 5}}) {
      std::vector<std::vector<double>> all;
      std::vector<v1::Measurement> parts;
      for (const std::size_t ranks : shares) {
        std::vector<std::vector<double>> own(ranks, std::vector<double>(steps));
        for (auto& rank : own) std::generate(rank.begin(), rank.end(), [&] { return seconds(random); });
        parts.push_back(OfRanks(own, 4));
        all.insert(all.end(), own.begin(), own.end());
      }
      const auto merged = MergeMeasurements(parts);
      ASSERT_TRUE(merged.has_value());
      EXPECT_EQ(merged->SerializeAsString(), OfRanks(all, 4).SerializeAsString());
    }
  }
}

TEST(MergeResults, SingleShareKeepsTimesAndRecomputesMedian) {
  v1::Measurement odd = OfRanks({{0.5, 0.25, 1}}, 3);
  odd.set_peak_memory_bytes(7);
  odd.set_build_id("build");
  const v1::Measurement wanted = odd;
  odd.set_median_step_time_s(1e-300);
  odd.set_ci95_s(98);
  EXPECT_EQ(MergeMeasurements(std::vector{odd})->SerializeAsString(), wanted.SerializeAsString());
  v1::CalibrateResult calibration;
  calibration.add_ops()->mutable_op()->set_kind("matmul");
  calibration.mutable_ops(0)->set_seconds(0.1);
  const std::vector<ShareCalibration> one = {{calibration, 3}};
  EXPECT_EQ(MergeCalibrations(one).SerializeAsString(), calibration.SerializeAsString());
}

v1::TrainResult OfRank(const std::vector<double>& steps, std::int64_t parameters, std::int64_t total) {
  v1::TrainResult rank;
  rank.mutable_step_time_s()->Assign(steps.begin(), steps.end());
  rank.mutable_planned_memory_bytes()->set_parameters(parameters);
  rank.mutable_planned_memory_bytes()->set_total(total);
  rank.set_peak_memory_bytes(total - 1);
  rank.set_device_overhead_bytes(100 - total);
  rank.add_trace()->set_action(static_cast<int>(parameters));
  return rank;
}

TEST(MergeResults, RunTakesItsSlowestRankAndLargestMemory) {
  std::vector<v1::TrainResult> ranks = {OfRank({1, 4}, 1, 10), OfRank({3, 2}, 2, 30), OfRank({2, 2}, 3, 20)};
  for (v1::TrainResult& rank : ranks) {
    rank.add_losses(5);
    rank.add_losses(4);
    rank.add_grad_norms(1);
    rank.set_first_step(3);
  }
  ranks[0].set_checkpoint_path("ckpt/step-5");  // only rank 0 knows it
  const auto run = MergeRanks(ranks);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(std::vector<double>(run->step_time_s().begin(), run->step_time_s().end()),
            (std::vector<double>{3, 4}));
  EXPECT_EQ(run->planned_memory_bytes().parameters(), 2) << "the regions of one rank";
  EXPECT_EQ(run->planned_memory_bytes().total(), 30);
  EXPECT_EQ(run->peak_memory_bytes(), 29);
  EXPECT_EQ(run->device_overhead_bytes(), 90);
  EXPECT_EQ(run->losses_size(), 2);
  EXPECT_EQ(run->grad_norms_size(), 1);
  EXPECT_EQ(run->first_step(), 3);
  EXPECT_EQ(run->checkpoint_path(), "ckpt/step-5");
  ASSERT_EQ(run->trace_size(), 3);
  EXPECT_EQ(run->trace(2).action(), 3);

  const auto measurement = MeasurementOf(*run);
  ASSERT_TRUE(measurement.has_value());
  EXPECT_EQ(measurement->median_step_time_s(), 3.5);
  EXPECT_EQ(measurement->planned_memory_bytes(), 30);
  EXPECT_EQ(measurement->peak_memory_bytes(), 29);
  EXPECT_EQ(measurement->device_overhead_bytes(), 90);
  EXPECT_EQ(measurement->first_loss(), 5);
  EXPECT_EQ(measurement->last_loss(), 4);
  EXPECT_FALSE(measurement->slice());
}

TEST(MergeResults, RanksThatDoNotMatchAreNamed) {
  std::vector<v1::TrainResult> ranks = {OfRank({1, 2}, 1, 1), OfRank({1}, 1, 1)};
  EXPECT_EQ(MergeRanks(ranks).status().message(), "rank 1 timed 1 steps, rank 0 2");
  ranks[1] = ranks[0];
  ranks[1].mutable_slice();
  EXPECT_EQ(MergeRanks(ranks).status().message(), "rank 1 ran a slice, rank 0 with its peers");
  ranks[0].mutable_slice();
  EXPECT_TRUE(MeasurementOf(*MergeRanks(ranks))->slice());
  for (v1::TrainResult& rank : ranks) rank.clear_step_time_s();
  ASSERT_TRUE(MergeRanks(ranks).ok()) << "the dry device times nothing";
  EXPECT_FALSE(MeasurementOf(*MergeRanks(ranks)).has_value());
}

TEST(MergeResults, TrialsOfAPlanArePooled) {
  v1::Measurement first = OfRanks({{1, 2, 3}}, 4);
  first.set_build_id("old");
  first.set_peak_memory_bytes(7);
  v1::Measurement second = OfRanks({{5, 4}}, 6);
  second.set_build_id("new");
  second.set_peak_memory_bytes(6);
  const v1::Measurement pooled = PoolTrials(std::vector{first, second});
  const std::vector<double> steps = {1, 2, 3, 5, 4};
  EXPECT_EQ(std::vector<double>(pooled.step_time_s().begin(), pooled.step_time_s().end()), steps);
  EXPECT_EQ(pooled.median_step_time_s(), 3);
  EXPECT_EQ(pooled.ci95_s(), *base::MedianCi95(steps));
  EXPECT_EQ(pooled.device_s(), 10);
  EXPECT_EQ(pooled.peak_memory_bytes(), 7);
  EXPECT_EQ(pooled.build_id(), "new");
}

v1::Breakdown Worked(double compute, double tp_comm, double bubble) {
  v1::Breakdown breakdown;
  breakdown.set_compute(compute);
  breakdown.set_recompute(1);
  breakdown.set_tp_comm(tp_comm);
  breakdown.set_bubble(bubble);
  breakdown.set_hidden_comm(compute / 8);
  return breakdown;
}

// All parts are those of one rank, so that they still add up to the step.
TEST(MergeResults, BreakdownIsThatOfTheRankThatWorkedLongest) {
  std::vector<v1::TrainResult> ranks = {OfRank({1}, 1, 10), OfRank({1}, 1, 10), OfRank({1}, 1, 10)};
  EXPECT_FALSE(MeasurementOf(*MergeRanks(ranks))->has_breakdown_s()) << "nobody asked for it";
  *ranks[0].mutable_breakdown_s() = Worked(4, 1, 3);
  *ranks[1].mutable_breakdown_s() = Worked(3, 4, 1);
  *ranks[2].mutable_breakdown_s() = Worked(2, 2, 4);
  const auto measurement = MeasurementOf(*MergeRanks(ranks));
  EXPECT_EQ(measurement->breakdown_s().SerializeAsString(), Worked(3, 4, 1).SerializeAsString());

  v1::Measurement other = *measurement, without = *measurement;
  *other.mutable_breakdown_s() = Worked(6, 2, 0);
  without.clear_breakdown_s();
  for (const std::vector<v1::Measurement>& shares :
       {std::vector{*measurement, other, without}, std::vector{without, other, *measurement}}) {
    EXPECT_EQ(MergeMeasurements(shares)->breakdown_s().SerializeAsString(),
              other.breakdown_s().SerializeAsString());
  }
  EXPECT_FALSE(MergeMeasurements(std::vector{without, without})->has_breakdown_s());

  EXPECT_EQ(PoolTrials(std::vector{other, *measurement, without}).breakdown_s().SerializeAsString(),
            measurement->breakdown_s().SerializeAsString())
      << "of the last trial that has one";
  EXPECT_FALSE(PoolTrials(std::vector{without}).has_breakdown_s());
}

TEST(MergeResults, MismatchedSharesYieldNullopt) {
  v1::Measurement one = OfRanks({{1}}, 1);
  v1::Measurement two = OfRanks({{1, 2}}, 1);
  v1::Measurement slice = one;
  slice.set_slice(true);
  EXPECT_TRUE(MergeMeasurements(std::vector{one, one}).has_value());
  EXPECT_FALSE(MergeMeasurements(std::vector{one, two}).has_value());
  EXPECT_FALSE(MergeMeasurements(std::vector{v1::Measurement()}).has_value());
  EXPECT_FALSE(MergeMeasurements(std::vector{one, slice}).has_value());
  EXPECT_FALSE(MergeMeasurements(std::vector{one, one, v1::Measurement()}).has_value());
  EXPECT_FALSE(MergeMeasurements(std::vector{v1::Measurement(), v1::Measurement()}).has_value());
}

TEST(MergeResults, OpTimedBySomeSharesIsTheirMean) {
  const auto timed = [](const char* kind, double seconds) {
    v1::CalibrateResult result;
    result.add_ops()->mutable_op()->set_kind(kind);
    result.mutable_ops(0)->set_seconds(seconds);
    result.mutable_ops(0)->set_host_s(seconds / 10);
    return result;
  };
  const std::vector<ShareCalibration> shares = {
      {timed("matmul", 2), 1}, {timed("matmul", 6), 3}, {timed("send_recv", 1), 5}};
  const v1::CalibrateResult merged = MergeCalibrations(shares);
  ASSERT_EQ(merged.ops_size(), 2);
  EXPECT_EQ(merged.ops(0).seconds(), 5);
  EXPECT_DOUBLE_EQ(merged.ops(0).host_s(), 0.5);
  EXPECT_EQ(merged.ops(1).seconds(), 1);
  EXPECT_EQ(merged.ops(1).host_s(), 0.1);
}

// Of another engine it may be one worker's log that tells of the steps.
TEST(MergeResults, SharesOfAnEngineTakeTheStepsThatLogsTellOf) {
  const auto share = [](const std::vector<double>& steps, std::int64_t peak, const std::string& version) {
    v1::Measurement one;
    one.set_engine("megatron");
    one.set_engine_version(version);
    one.mutable_step_time_s()->Assign(steps.begin(), steps.end());
    if (!steps.empty()) one.set_last_loss(steps.back());
    one.set_peak_memory_bytes(peak);
    one.set_device_s(2);
    return one;
  };
  const auto merged = MergeMeasurements(std::vector{share({}, 7, "1"), share({3, 1, 2}, 5, "1")});
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(merged->step_time_s_size(), 3);
  EXPECT_EQ(merged->median_step_time_s(), 2);
  EXPECT_EQ(merged->last_loss(), 2);
  EXPECT_EQ(merged->peak_memory_bytes(), 7);
  EXPECT_EQ(merged->device_s(), 4);
  EXPECT_EQ(merged->engine_version(), "1");
  const auto both =
      MergeMeasurements(std::vector{share({9, 1, 4}, 7, "1"), share({}, 1, "1"), share({3, 2}, 5, "2")});
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(std::vector<double>(both->step_time_s().begin(), both->step_time_s().end()),
            (std::vector<double>{3, 4}))
      << "the last steps that both tell of, as the slower says";
  EXPECT_EQ(both->engine_version(), "1 + 2");
  EXPECT_FALSE(MergeMeasurements(std::vector{share({}, 7, "1"), share({}, 5, "1")}).has_value());
  v1::Measurement own = share({1}, 1, "");
  own.clear_engine();
  EXPECT_FALSE(MergeMeasurements(std::vector{share({1}, 7, "1"), own}).has_value());
}

}  // namespace
}  // namespace autocfg
