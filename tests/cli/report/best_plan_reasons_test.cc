// Why the best plan of an answer is the best, and how certain that is: in the JSON and in the text.
#include <cstdint>
#include <string>
#include <utility>

#include "cli/report/report.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer_json.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "tests/proto/answer/sample_answer.h"

namespace autocfg::cli {
namespace {

using test::Answer;
using test::Candidate;
using test::Question;

TEST(AnswerJson, SaysWhyTheBestPlanIsTheBest) {
  auto answer = Answer();
  auto& effect = *answer.mutable_matters_most();
  effect.set_option("tp");
  effect.set_chosen("1");
  effect.set_instead("2");
  effect.set_costs(0.5);
  effect.set_because("tp=2 in place of tp=1 costs 50%");
  effect.set_only_this_changed(true);
  *effect.mutable_plan() = ToProto(*ParsePlanText("tp=2,pp=1"));
  const auto why = (*AnswerJson({Question(), answer}))["why"];
  EXPECT_EQ(why["runner_up"]["plan"]["tp"], 2);
  EXPECT_EQ(why["runner_up"]["step_time_s"], 0.375);
  EXPECT_EQ(why["runner_up"]["provenance"], "measured");
  EXPECT_EQ(why["lead"], 0.5) << "0.375 s after 0.25 s";
  EXPECT_EQ(why["matters_most"]["option"], "tp");
  EXPECT_EQ(why["matters_most"]["chosen"], "1");
  EXPECT_EQ(why["matters_most"]["instead"], "2");
  EXPECT_EQ(why["matters_most"]["costs"], 0.5);
  EXPECT_EQ(why["matters_most"]["because"], "tp=2 in place of tp=1 costs 50%");
  EXPECT_EQ(why["matters_most"]["only_this_changed"], true);
  EXPECT_EQ(why["matters_most"]["plan"]["tp"], 2);
  EXPECT_EQ(why["matters_most"]["costs_alone"], nullptr);
  effect.set_costs_alone(0.75);
  *effect.mutable_plan_alone() = ToProto(*ParsePlanText("tp=2,pp=1,mbs=2"));
  const auto alone = (*AnswerJson({Question(), answer}))["why"]["matters_most"];
  EXPECT_EQ(alone["costs_alone"], 0.75);
  EXPECT_EQ(alone["plan_alone"]["micro_batch"], 2);
  EXPECT_EQ(alone["plan_alone_text"], "tp=2,pp=1,dp=1,mbs=2");
  EXPECT_NE(SearchReport({Question(), answer}, "")
                .find("why: the runner-up takes 50.0% more (375 ms, measured)\n"
                      "     tp matters most: tp=2 in place of tp=1 costs 50%\n"),
            std::string::npos)
      << SearchReport({Question(), answer}, "");
  effect.set_costs(0.01);
  EXPECT_NE(SearchReport({Question(), answer}, "").find("     no option matters much; tp matters most: tp=2"),
            std::string::npos);
  answer.clear_runners_up();
  answer.clear_matters_most();
  const auto none = (*AnswerJson({Question(), answer}))["why"];
  for (const char* key : {"runner_up", "lead", "matters_most"}) EXPECT_TRUE(none[key].is_null()) << key;
  EXPECT_EQ(SearchReport({Question(), answer}, "").find("why:"), std::string::npos);
  answer.clear_best();
  answer.set_nothing_fits("nothing");
  EXPECT_TRUE((*AnswerJson({Question(), answer}))["why"].is_null());
}

TEST(SearchReport, AnEqualRunnerUpTakesAsLong) {
  auto answer = Answer();
  const double best_s = answer.best().measured().median_step_time_s();
  answer.mutable_runners_up(0)->mutable_measured()->set_median_step_time_s(best_s * 0.9999);
  EXPECT_THAT(SearchReport({Question(), answer}, ""),
              testing::HasSubstr("why: the runner-up takes as long ("));
}

// 0.25 s and 0.375 s, each with its interval.
TEST(AnswerJson, TiesAreCalledTies) {
  auto answer = Answer();
  const auto question = Question();
  const auto tied = [&](double best_ci95_s, double other_ci95_s) {
    answer.mutable_best()->mutable_measured()->set_ci95_s(best_ci95_s);
    answer.mutable_runners_up(0)->mutable_measured()->set_ci95_s(other_ci95_s);
    const int count = (*AnswerJson({question, answer}))["why"]["tied"];
    const bool said = SearchReport({question, answer}, "").find("1 plan is tied") != std::string::npos;
    EXPECT_EQ(said, count == 1);
    return count;
  };
  EXPECT_EQ(tied(0.05, 0.05), 0);
  EXPECT_EQ(tied(0.1, 0.05), 1);
  answer.mutable_runners_up(0)->mutable_measured()->set_slice(true);
  EXPECT_EQ(tied(0.1, 0.05), 0);
}

TEST(AnswerJson, NamesWhatPredictionsDoNotTellApart) {
  EXPECT_EQ((*AnswerJson({Question(), Answer()}))["why"]["predicted_ties"], nullptr) << "it was measured";
  v1::Recommendation answer;
  const auto plan = [](const char* text, double seconds, std::int64_t bytes) {
    v1::Candidate candidate = Candidate(text, 0);
    candidate.mutable_predicted()->set_step_time_s(seconds);
    candidate.mutable_predicted()->mutable_memory_bytes()->set_total(bytes);
    candidate.mutable_predicted()->mutable_memory_bytes()->set_capacity(1000);
    return candidate;
  };
  *answer.mutable_best() = plan("tp=1,pp=2,dp=1,mbs=2", 1, 940);
  const auto ties = [&] { return (*AnswerJson({Question(), answer}))["why"]["predicted_ties"]; };
  EXPECT_EQ(ties()["count"], 0);
  EXPECT_EQ(SearchReport({Question(), answer}, "").find("tell apart"), std::string::npos);
  *answer.add_runners_up() = plan("tp=2,pp=1,dp=1,mbs=1", 1.002, 930);
  EXPECT_EQ(ties()["roomier"], nullptr) << "1% more is not worth a word";
  *answer.add_runners_up() = plan("tp=2,pp=1,dp=1,mbs=2", 1.02, 740);
  *answer.add_runners_up() = plan("tp=1,pp=1,dp=2,mbs=1", 1.03, 800);
  *answer.add_runners_up() = plan("tp=1,pp=1,dp=2,mbs=2", 1.04, 100);
  EXPECT_EQ(ties()["count"], 3);
  EXPECT_EQ(ties()["within"], 0.03);
  EXPECT_EQ(ties()["roomier"]["plan_text"], "tp=2,pp=1,dp=1,mbs=2");
  EXPECT_EQ(ties()["roomier"]["step_time_s"], 1.02);
  EXPECT_EQ(ties()["roomier"]["total_memory_bytes"], 740);
  EXPECT_NE(SearchReport({Question(), answer}, "")
                .find("     3 runners-up are within 3%, which predictions do not tell apart; the\n"
                      "       careful choice leaves 26% of the memory free in place of 6% (1.02 s):\n"
                      "       tp=2,pp=1,dp=1,mbs=2\n"),
            std::string::npos)
      << SearchReport({Question(), answer}, "");
}

TEST(AnswerJson, SaysHowLikelyABetterPlanIs) {
  auto answer = Answer();
  const auto question = Question();
  answer.clear_chance_of_better();
  EXPECT_TRUE((*AnswerJson({question, answer}))["search"]["chance_of_better"].is_null());
  EXPECT_EQ(SearchReport({question, answer}, "").find("chance that"), std::string::npos);
  for (const auto& [chance, text] :
       {std::pair(0.034, "at most 3%"), std::pair(0.004, "less than 1%"), std::pair(1.0, "at most 100%")}) {
    answer.set_chance_of_better(chance);
    EXPECT_EQ((*AnswerJson({question, answer}))["search"]["chance_of_better"], chance);
    EXPECT_NE(SearchReport({question, answer}, "")
                  .find(fmt::format(
                      "\n  chance that a plan that was not measured is more than 1% faster: {}\n", text)),
              std::string::npos);
  }
}

}  // namespace
}  // namespace autocfg::cli
