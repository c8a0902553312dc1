#include "search/sizing/size_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/cost/op_times/cluster_op_times.h"
#include "search/planner/search_loop.h"
#include "search/sizing/model_family.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

// Models that differ in their layers only; `layers` is also their place, from 1 on.
std::vector<ModelSpec> Family(std::int64_t size) {
  std::vector<ModelSpec> family;
  for (std::int64_t i = 1; i <= size; ++i) family.push_back({.layers = i});
  return family;
}

SizedModel Sized(const ModelSpec& model, SizeVerdict verdict) {
  SizedModel sized;
  sized.model = model;
  sized.verdict = verdict;
  return sized;
}

TEST(LargestInTime, FindsTheLastThatIsInTime) {
  for (std::int64_t size = 1; size <= 12; ++size) {
    for (std::int64_t in_time = 0; in_time <= size; ++in_time) {
      int tries = 0;
      const auto answer = LargestInTime(Family(size), [&](const ModelSpec& model) {
        ++tries;
        return Sized(model, model.layers <= in_time ? SizeVerdict::kInTime : SizeVerdict::kTooLong);
      });
      ASSERT_TRUE(answer.ok());
      EXPECT_EQ(answer->best ? answer->best->model.layers : 0, in_time);
      EXPECT_EQ(answer->next_larger ? answer->next_larger->model.layers : size + 1, in_time + 1);
      EXPECT_EQ(answer->tried.size(), static_cast<std::size_t>(tries));
      EXPECT_LE(tries, 4);
    }
  }
}

// Small models may have no plan of all ranks; larger ones do.
TEST(LargestInTime, GoesBeyondModelsThatAreTooSmall) {
  const auto verdicts = [](std::int64_t too_small, std::int64_t in_time) {
    return LargestInTime(Family(8), [=](const ModelSpec& model) {
      return Sized(model, model.layers <= too_small ? SizeVerdict::kTooManyRanks
                          : model.layers <= in_time ? SizeVerdict::kInTime
                                                    : SizeVerdict::kOutOfMemory);
    });
  };
  EXPECT_EQ(verdicts(5, 6)->best->model.layers, 6);
  EXPECT_EQ(verdicts(5, 6)->next_larger->model.layers, 7);
  EXPECT_FALSE(verdicts(5, 5)->best) << "5 is too small, and 6 too large";
  EXPECT_FALSE(verdicts(8, 8)->best);
}

TEST(LargestInTime, ReturnsTheErrorOfATry) {
  const auto answer = LargestInTime(Family(3), [](const ModelSpec&) -> absl::StatusOr<SizedModel> {
    return absl::CancelledError("stopped");
  });
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled);
}

SizeQuestion Question(const char* cluster, double days) {
  SizeQuestion question;
  question.cluster = *PresetCluster(cluster);
  question.days = days;
  question.seq_len = 2048;
  question.precision = *ParsePrecision("bf16");
  return question;
}

// The same as without bisection.
TEST(RecommendSize, IsTheLargestOfAllThatAreInTime) {
  SizeQuestion question = Question("a100-80gb-sxm:1x8", 7);
  question.tokens = 20e9;
  const auto answer = RecommendSize(question);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->best && answer->next_larger);
  EXPECT_EQ(answer->best->tokens, 20e9);
  EXPECT_LE(answer->best->days, 7);
  std::string largest;
  double last_days = 0;
  for (const ModelSpec& model : FamilyOfSizes(2048)) {
    const auto sized = TryModel(question, model);
    ASSERT_TRUE(sized.ok()) << sized.status();
    if (sized->verdict == SizeVerdict::kOutOfMemory) break;
    EXPECT_GT(sized->days, last_days) << model.name;
    last_days = sized->days;
    if (sized->days <= 7) largest = model.name;
  }
  EXPECT_EQ(answer->best->model.name, largest);
}

TEST(RecommendSize, TrainsEachModelOnItsOwnOptimum) {
  const auto answer = RecommendSize(Question("h100-sxm:8x8", 10));
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->best && answer->next_larger);
  for (const SizedModel& sized : {*answer->best, *answer->next_larger}) {
    const auto parameters = static_cast<double>(ParameterCount(sized.model));
    EXPECT_DOUBLE_EQ(sized.tokens, 20 * parameters);
    // About 6 FLOPs for each parameter and token: no GPU is faster than its peak, and none so slow.
    const double flops = 6 * parameters * sized.tokens / (sized.days * 86400 * 64);
    EXPECT_LT(flops, 989e12);
    EXPECT_GT(flops, 0.2 * 989e12);
  }
  EXPECT_LE(answer->best->days, 10);
  EXPECT_GT(answer->next_larger->days, 10);
  EXPECT_EQ(answer->next_larger->verdict, SizeVerdict::kTooLong);
}

TEST(TryModel, SaysWhyThereIsNoPlan) {
  const std::vector<ModelSpec> family = FamilyOfSizes(2048);
  const auto large = TryModel(Question("a100-80gb-sxm:1x8", 7), family.back());
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(large->verdict, SizeVerdict::kOutOfMemory);
  EXPECT_THAT(large->reason, HasSubstr("no plan fits in memory: "));
  SizeQuestion question = Question("a100-80gb-sxm:512x8", 7);
  question.global_batch = 1;
  const auto small = TryModel(question, family.front());
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->verdict, SizeVerdict::kTooManyRanks);
  EXPECT_THAT(small->reason, HasSubstr("a step of 1 sequences of this model cannot be split over all GPUs"));
}

// The narrower space costs little.
TEST(SizeSpace, HoldsNearlyTheFastestPlans) {
  const SizeQuestion question = Question("h100-sxm:4x8", 7);
  for (const ModelSpec& model : FamilyOfSizes(2048)) {
    if (model.hidden != 2048 && model.hidden != 5120) continue;
    const auto sized = TryModel(question, model);
    ASSERT_TRUE(sized.ok()) << sized.status();
    auto loop = SearchLoop::Create({model, sized->workload, question.cluster}, {}, {.predict_only = true});
    ASSERT_TRUE(loop.ok()) << loop.status();
    const auto times = ClusterOpTimes::Create(question.cluster, question.precision);
    ASSERT_TRUE(times.ok()) << times.status();
    ASSERT_TRUE(loop->SetCalibration(std::shared_ptr<const OpTimeModel>(*times),
                                     DeviceOverheadBytes(question.cluster))
                    .ok());
    EXPECT_LT(sized->predicted.step_time_s, 1.1 * loop->Ranking(1).front().predicted.step_time_s)
        << model.name;
  }
}

TEST(RecommendSize, StopsOnceTheWatchSaysNo) {
  const auto answer =
      RecommendSize(Question("h100-sxm:8x8", 10), [](const PlanningProgress&) { return false; });
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace autocfg
