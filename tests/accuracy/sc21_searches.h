// Predictions and searches of the published runs, without hardware.
#pragma once

#include <iostream>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "search/cost/cost_model.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/plan/plan_text.h"
#include "search/planner/search_loop.h"
#include "tests/accuracy/sc21_runs.h"

namespace autocfg::test {

inline CostModel CostsOf(const PublishedRun& run) {
  const ClusterSpec cluster = ClusterOf(run);
  const Workload workload = WorkloadOf(run);
  auto times = ClusterOpTimes::Create(cluster, workload.precision);
  EXPECT_TRUE(times.ok()) << times.status();
  return {{ModelOf(run), workload, cluster}, *times, DeviceOverheadBytes(cluster)};
}

// Checks that the plan that a search chooses for the same model, batch and cluster is predicted to be at
// least as fast as the authors' plan.
inline void ExpectNothingSlower(const AxisValues& space) {
  for (const PublishedRun& run : kSc21Runs) {
    const ClusterSpec cluster = ClusterOf(run);
    const Workload workload = WorkloadOf(run);
    auto loop = SearchLoop::Create({ModelOf(run), workload, cluster}, space, {.predict_only = true});
    ASSERT_TRUE(loop.ok()) << run.model << ": " << loop.status();
    const auto times = ClusterOpTimes::Create(cluster, workload.precision);
    ASSERT_TRUE(times.ok()) << times.status();
    const absl::Status predicted = loop->SetCalibration(*times, DeviceOverheadBytes(cluster));
    ASSERT_TRUE(predicted.ok()) << run.model << ": " << predicted;
    const std::vector<RankedPlan> ranking = loop->Ranking(1);
    ASSERT_FALSE(ranking.empty()) << run.model;

    CostModel costs = CostsOf(run);
    const double chosen = costs.Predict(ranking[0].plan).step_time_s;
    const double published = costs.Predict(PlanOf(run)).step_time_s;
    std::cout << fmt::format("{:14} {} takes {:.1f}% of the published plan's time, by prediction\n",
                             run.model, PlanText(ranking[0].plan), 100 * chosen / published);
    EXPECT_LE(chosen, published * (1 + 1e-9)) << run.model << ", instead of " << PlanText(PlanOf(run));
    EXPECT_TRUE(ranking[0].predicted.feasible) << run.model;
  }
}

}  // namespace autocfg::test
