// Compares predictions without hardware with published runs. No figure of the device or the engine was fitted
// to measured steps, but they were chosen with these runs known.
#include <cmath>
#include <iostream>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "search/cost/cost_model.h"
#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "tests/accuracy/sc21_runs.h"
#include "tests/accuracy/sc21_searches.h"

namespace autocfg {
namespace {

using test::CostsOf;
using test::ExpectNothingSlower;
using test::kSc21Runs;
using test::PublishedRun;

// Step times by equation 3, computed independently from the same table.
TEST(Sc21, StepTimesFromPublishedRates) {
  EXPECT_NEAR(PublishedSeconds(kSc21Runs[0]), 3.528, 0.001);
  EXPECT_NEAR(PublishedSeconds(kSc21Runs[5]), 16.058, 0.001);
  EXPECT_NEAR(PublishedSeconds(kSc21Runs[9]), 102.63, 0.01);
}

TEST(Sc21, EachIsWithin9PercentAndTheMeanWithin4Point5) {
  double sum = 0;
  for (const PublishedRun& run : kSc21Runs) {
    const ParallelPlan plan = PlanOf(run);
    const auto illegal = ExplainIllegality({ModelOf(run), WorkloadOf(run), plan}, run.gpus);
    ASSERT_FALSE(illegal) << run.model << ": " << illegal->detail;
    ASSERT_TRUE(CheckPredictable(plan).ok()) << run.model;
    CostModel costs = CostsOf(run);
    const Prediction prediction = costs.Estimate(plan);
    const double published = PublishedSeconds(run);
    const double error = prediction.step_time_s / published - 1;
    // For comparison: two current options that these runs did not use.
    ParallelPlan whole_messages = plan, fused = plan;
    whole_messages.scatter_gather = false;
    fused.attention = Attention::kFused;
    const auto percent = [&](const ParallelPlan& p) {
      return 100 * (costs.Estimate(p).step_time_s / published - 1);
    };
    std::cout << fmt::format(
        "{:14} {:7.3f} s, predicted {:7.3f} s ({:+5.1f}%); scatter_gather=0 {:+5.1f}%, attention=fused "
        "{:+5.1f}%\n",
        run.model, published, prediction.step_time_s, 100 * error, percent(whole_messages), percent(fused));
    RecordProperty(std::string("error_percent_") + run.model, fmt::format("{:.1f}", 100 * error));
    EXPECT_LE(std::abs(error), 0.09) << run.model << ", " << PlanText(plan);
    EXPECT_TRUE(prediction.feasible) << run.model << ": the published run fitted; " << prediction.reason;
    sum += std::abs(error);
  }
  const double mean = sum / static_cast<double>(kSc21Runs.size());
  std::cout << fmt::format("mean absolute error {:.1f}%\n", 100 * mean);
  EXPECT_LE(mean, 0.045);
}

// Among plans of the kind of 2021.
TEST(Sc21, SearchPicksNothingSlower) {
  ExpectNothingSlower({{"attention", {"unfused"}},
                       {"scatter_gather", {"0", "1"}},
                       {"recompute", {"none", "selective", "full"}},
                       {"schedule", {"gpipe", "1f1b", "interleaved"}},
                       {"zero", {"0"}},
                       {"p2p_overlap", {"0"}}});
}

}  // namespace
}  // namespace autocfg
