#include "cli/report/training_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/report/questions_report.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Two ranks; a step has 1000 tokens.
SearchQuestion RunQuestion() {
  SearchQuestion question;
  question.model = {.name = "mine", .layers = 4, .hidden = 64, .heads = 4, .vocab = 512};
  FillDefaults(question.model, 100);
  NodeGroup group;
  group.gpus_per_node = 2;
  question.cluster.groups.push_back(group);
  question.workload = {10, 100, *ParsePrecision("bf16")};
  return question;
}

// Predicted to take 864 ms.
SearchAnswer RunAnswer(double measured_s = 0, bool slice = false) {
  v1::Recommendation answer;
  v1::Candidate& best = *answer.mutable_best();
  best.set_plan_text("tp=2");
  *best.mutable_plan() = ToProto(*ParsePlanText("tp=2"));
  best.mutable_predicted()->set_step_time_s(0.864);
  if (measured_s > 0) best.mutable_measured()->set_median_step_time_s(measured_s);
  if (slice) best.mutable_measured()->set_slice(true);
  return {RunQuestion(), answer};
}

TEST(TrainingOf, TakesTheMeasuredTimeOfAWholePlanOnly) {
  const TrainingTerms terms{.tokens = 1e6};
  EXPECT_DOUBLE_EQ(*TrainingOf(terms, RunAnswer())->estimate.days, 0.01);
  EXPECT_FALSE(TrainingOf(terms, RunAnswer())->measured);
  EXPECT_DOUBLE_EQ(*TrainingOf(terms, RunAnswer(1.728))->estimate.days, 0.02);
  EXPECT_TRUE(TrainingOf(terms, RunAnswer(1.728))->measured);
  EXPECT_DOUBLE_EQ(*TrainingOf(terms, RunAnswer(1.728, true))->estimate.days, 0.01);
  EXPECT_FALSE(TrainingOf(terms, RunAnswer(1.728, true))->measured);
}

TEST(TrainingOf, IsEmptyWithoutAQuestionOrAPlan) {
  EXPECT_FALSE(TrainingOf({}, RunAnswer()));
  v1::Recommendation none;
  none.set_nothing_fits("too large");
  EXPECT_FALSE(TrainingOf({.tokens = 1e6}, {RunQuestion(), none}));
  EXPECT_EQ(TrainingText(std::nullopt), "");
}

TEST(TrainingJson, HasTheDocumentedKeys) {
  const TrainingTerms terms{
      .tokens = 1e9, .price_per_gpu_hour = 2, .node_mtbf_s = 36000, .checkpoint_s = 5.0};
  const auto json = TrainingJson(*TrainingOf(terms, RunAnswer()));
  EXPECT_EQ(json["tokens"], 1e9);
  EXPECT_EQ(json["steps"], 1'000'000);
  EXPECT_DOUBLE_EQ(json["days"], 10);
  EXPECT_DOUBLE_EQ(json["gpu_hours"], 480);
  EXPECT_DOUBLE_EQ(json["cost"], 960);
  EXPECT_DOUBLE_EQ(json["cost_per_billion_tokens"], 960);
  EXPECT_EQ(json["price_per_gpu_hour"], 2);
  EXPECT_EQ(json["step_time_s"], 0.864);
  EXPECT_EQ(json["provenance"], "predicted");
  const auto& failures = json["failures"];
  EXPECT_EQ(failures["job_mtbf_s"], 36000);
  EXPECT_EQ(failures["checkpoint_s"], 5);
  EXPECT_EQ(failures["restart_s"], 600);
  EXPECT_EQ(failures["progresses"], true);
  EXPECT_DOUBLE_EQ(failures["days"], 10 * failures["slowdown"].get<double>());
  EXPECT_DOUBLE_EQ(failures["cost"], 960 * failures["slowdown"].get<double>());
}

TEST(TrainingJson, IsNullWhereNothingFollows) {
  const auto price = TrainingJson(*TrainingOf({.price_per_gpu_hour = 2}, RunAnswer()));
  for (const char* key : {"tokens", "steps", "days", "gpu_hours", "cost", "failures"})
    EXPECT_EQ(price.at(key), nullptr) << key;
  EXPECT_DOUBLE_EQ(price["cost_per_billion_tokens"], 960);
  const TrainingTerms stuck{.tokens = 1e9, .node_mtbf_s = 1, .checkpoint_s = 5.0};
  const auto failures = TrainingJson(*TrainingOf(stuck, RunAnswer()))["failures"];
  EXPECT_EQ(failures["progresses"], false);
  for (const char* key : {"checkpoint_interval_s", "slowdown", "days", "gpu_hours", "cost"})
    EXPECT_EQ(failures.at(key), nullptr) << key;
}

TEST(TrainingText, SaysWhatIsAsked) {
  const auto text = [](const TrainingTerms& terms) { return TrainingText(TrainingOf(terms, RunAnswer())); };
  EXPECT_EQ(text({.tokens = 1e9}),
            "training, by the predicted step time: 1B tokens in 1,000,000 steps: 10.0 days, 480 GPU-hours\n");
  EXPECT_EQ(text({.price_per_gpu_hour = 2}),
            "training, by the predicted step time: 960 per billion tokens, at 2.00 a GPU-hour\n");
  const std::string failing = text({.tokens = 1e9, .price_per_gpu_hour = 20, .node_mtbf_s = 360000});
  EXPECT_THAT(
      failing,
      HasSubstr("10.0 days, 480 GPU-hours, cost 9,600, 9,600 per billion tokens, at 20.00 a GPU-hour\n"));
  EXPECT_THAT(failing, HasSubstr("\n  with a failure every 4.2 days: 0."));
  EXPECT_THAT(failing, HasSubstr("\n  best checkpoint: after every "));
  EXPECT_THAT(text({.node_mtbf_s = 1, .checkpoint_s = 5.0}), HasSubstr("the job does not progress"));
  EXPECT_THAT(text({.node_mtbf_s = 1000, .checkpoint_s = 5.0}), HasSubstr(" times as long\n"));
}

TEST(QuestionsReport, HasColumnsForAWholeRun) {
  AnsweredQuestion entry{{"toy", 1, 10, 100}};
  entry.answer = RunAnswer();
  AnsweredQuestion wrong{{"toy", 1, 10, 100000}};
  wrong.wrong = "workload: too long";
  const TrainingTerms terms{
      .tokens = 1e9, .price_per_gpu_hour = 2, .node_mtbf_s = 36000, .checkpoint_s = 5.0};
  const std::string text = QuestionsReport({wrong, entry}, terms);
  EXPECT_THAT(text, testing::ContainsRegex("free +training +cost"));
  EXPECT_THAT(text, testing::ContainsRegex("10.0 days +960"));
  EXPECT_THAT(text, testing::ContainsRegex("with failures"));
  EXPECT_THAT(text, testing::ContainsRegex("10.3 days"));
  EXPECT_THAT(QuestionsReport({wrong, entry}), Not(HasSubstr("training")));
  const auto json = QuestionsJson({wrong, entry}, terms);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["questions"][1]["training"], TrainingJson(*TrainingOf(terms, RunAnswer())));
  EXPECT_FALSE((*QuestionsJson({entry}))["questions"][0].contains("training"));
}

TEST(TrainingTitles, MatchTheCells) {
  for (const TrainingTerms& terms :
       {TrainingTerms{}, TrainingTerms{.tokens = 1e9}, TrainingTerms{.price_per_gpu_hour = 2},
        TrainingTerms{.node_mtbf_s = 36000}, TrainingTerms{.tokens = 1e9, .price_per_gpu_hour = 2},
        TrainingTerms{.price_per_gpu_hour = 2, .node_mtbf_s = 1}}) {
    const std::size_t count = TrainingTitles(terms).size();
    EXPECT_EQ(TrainingCells(terms, TrainingOf(terms, RunAnswer())).size(), count);
    EXPECT_EQ(TrainingCells(terms, std::nullopt), std::vector<std::string>(count, "-"));
  }
  EXPECT_THAT(TrainingCells({.price_per_gpu_hour = 2, .node_mtbf_s = 1},
                            TrainingOf({.price_per_gpu_hour = 2, .node_mtbf_s = 1e-3}, RunAnswer())),
              ElementsAre("960", "no progress"));
}

TEST(TokensText, ChoosesAUnit) {
  EXPECT_EQ(TokensText(300e9), "300B");
  EXPECT_EQ(TokensText(1.5e12), "1.5T");
  EXPECT_EQ(TokensText(2.1e6), "2.1M");
  EXPECT_EQ(TokensText(1000), "1,000");
}

}  // namespace
}  // namespace autocfg::cli
