// Lower bounds of step times, which a search relies on where it leaves out times.
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "search/cost/cost_model.h"
#include "search/plan/placement.h"
#include "search/plan/plan_text.h"
#include "tests/search/cost/random_cases.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::LocalRanks;
using test::RandomCase;
using test::RandomCases;
using test::Shortfall;
using test::SyntheticDevice;

// What a search relies on where it leaves out times. On devices that hide collectives and on others, whose
// ranks share cores or not, with a host that may be slower than the device.
TEST(CostModel, SecondsAreAboveTheirLowerBounds) {
  class HostedTimes final : public OpTimeModel {
   public:
    HostedTimes(const SyntheticDevice& device, double host_op_s) : device_(device), host_op_s_(host_op_s) {}
    double Seconds(const OpDesc& op, const ParallelPlan&) const override { return device_.Seconds(op); }
    double HostOpSeconds() const override { return host_op_s_; }

   private:
    SyntheticDevice device_;
    double host_op_s_;
  };
  RandomCases cases(29);
  std::map<Schedule, Shortfall> shortfall;
  int sharded = 0, timed = 0;
  for (int i = 0; i < 6000; ++i) {
    RandomCase c = cases.Next();
    ClusterSpec cluster = LocalRanks(RankCount(c.plan), cases.Pick({1, 1, 2}));
    if (cases.Coin()) cluster.groups.front().device.kind = DeviceKind::kCuda;
    if (cases.Coin()) cluster.groups.front().device.efficiency.overlap_contention = 0.6;
    const double host_op_s = std::vector{0.0, 0.0, 1e-5}[static_cast<std::size_t>(cases.Between(0, 2))];
    CostModel costs({c.model, c.workload, cluster}, std::make_shared<const HostedTimes>(c.device, host_op_s));
    const double at_least_s = costs.SecondsAtLeast(c.plan);
    const double estimate_s = costs.EstimatedSeconds(c.plan, costs.host_op_s());
    ASSERT_GT(at_least_s, 0) << i;
    ASSERT_LT(at_least_s, estimate_s) << i << " " << PlanText(c.plan);
    ASSERT_LT(at_least_s, costs.Predict(c.plan).step_time_s) << i << " " << PlanText(c.plan);
    if (const std::optional<double> bound_s = costs.ClosedFormAtLeast(c.plan)) {
      ++timed;
      ASSERT_LT(*bound_s, estimate_s) << i << " " << PlanText(c.plan);
      ASSERT_GE(*bound_s, at_least_s * (1 - 1e-9)) << i << " " << PlanText(c.plan);
    }
    ParallelPlan overlapped = c.plan;
    overlapped.p2p_overlap = c.plan.pp > 1;
    ASSERT_LE(costs.SecondsAtLeast(overlapped), at_least_s * (1 + 1e-12)) << i << " " << PlanText(c.plan);
    // What plans before left behind changes nothing.
    CostModel fresh({c.model, c.workload, cluster}, std::make_shared<const HostedTimes>(c.device, host_op_s));
    ParallelPlan other = c.plan;
    other.grad_overlap = !other.grad_overlap;
    fresh.SecondsAtLeast(other);
    ASSERT_EQ(fresh.SecondsAtLeast(c.plan), at_least_s) << i;
    shortfall[c.plan.schedule].of.push_back(1 - at_least_s / estimate_s);
    sharded += ShardsGradients(c.plan);
  }
  EXPECT_GT(sharded, 100);
  EXPECT_GT(timed, 500);
  for (auto& [schedule, of_schedule] : shortfall) {
    EXPECT_GT(of_schedule.of.size(), 500u);
    EXPECT_LT(of_schedule.Median(), 0.1) << static_cast<int>(schedule);
  }
}

}  // namespace
}  // namespace autocfg
