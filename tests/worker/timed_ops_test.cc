#include "worker/jobs/timed_ops.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace autocfg::worker {
namespace {

// Of ops named by their size, with their seconds.
v1::Progress Ops(const std::vector<std::pair<int, double>>& ops, std::int64_t overhead = 0) {
  v1::Progress progress;
  for (const auto& [size, seconds] : ops) {
    v1::OpTime& time = *progress.add_op_times();
    time.mutable_op()->set_kind("gelu");
    time.mutable_op()->add_dims(size);
    time.set_seconds(seconds);
  }
  progress.set_device_overhead_bytes(overhead);
  return progress;
}

using Pairs = std::vector<std::pair<int, double>>;

Pairs PairsOf(const v1::CalibrateResult& timed) {
  Pairs pairs;
  for (const v1::OpTime& time : timed.ops())
    pairs.emplace_back(static_cast<int>(time.op().dims(0)), time.seconds());
  return pairs;
}

TEST(TimedOps, MergesWhatAllRanksHaveTimed) {
  TimedOps timed(2);
  EXPECT_TRUE(timed.Add(0, Ops({{1, 1.0}, {2, 2.0}}, 100)).ops().empty());
  const v1::CalibrateResult first = timed.Add(1, Ops({{1, 3.0}}, 300));
  EXPECT_EQ(PairsOf(first), (Pairs{{1, 2.0}})) << "the mean over ranks";
  EXPECT_EQ(first.device_overhead_bytes(), 300);
  EXPECT_EQ(PairsOf(timed.Add(1, Ops({{2, 2.5}, {3, 1.0}}))), (Pairs{{2, 2.25}}));
  EXPECT_TRUE(timed.Add(0, Ops({})).ops().empty());
}

TEST(TimedOps, OneRankIsAll) {
  EXPECT_EQ(PairsOf(TimedOps(1).Add(0, Ops({{4, 0.5}, {5, 0.25}}))), (Pairs{{4, 0.5}, {5, 0.25}}));
}

TEST(TimedOps, GivesNothingIfRanksDisagree) {
  TimedOps timed(2);
  timed.Add(0, Ops({{1, 1.0}}));
  EXPECT_TRUE(timed.Add(1, Ops({{2, 1.0}})).ops().empty());
  timed.Add(0, Ops({{3, 1.0}}));
  EXPECT_TRUE(timed.Add(1, Ops({{3, 1.0}})).ops().empty());
  EXPECT_TRUE(TimedOps(0).Add(0, Ops({{1, 1.0}})).ops().empty()) << "the job's other ranks run elsewhere";
}

}  // namespace
}  // namespace autocfg::worker
