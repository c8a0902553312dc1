// What an answer says of the search itself: its speed, what it reused, what ended it, what became of plans.
#include <string>
#include <vector>

#include "cli/report/report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer_json.h"
#include "tests/proto/answer/sample_answer.h"

namespace autocfg::cli {
namespace {

using test::Answer;
using test::Question;
using testing::HasSubstr;
using testing::Not;

TEST(SearchReport, SaysHowFastPlansAreEvaluated) {
  auto answer = Answer();
  auto question = Question();
  answer.set_plan_cpu_s(0);
  EXPECT_EQ(EvaluatedPerSecond(answer), 0);
  answer.set_plan_cpu_s(0.5);
  answer.mutable_counts()->set_evaluated(20'000);
  EXPECT_EQ(EvaluatedPerSecond(answer), 40'000);
  EXPECT_EQ((*AnswerJson({question, answer}))["search"]["evaluated_per_s"], 40'000);
  question.predict_only = true;
  EXPECT_NE(SearchReport({question, answer}, "").find(", 40,000 plans"), std::string::npos);
  question.predict_only = false;
  EXPECT_EQ(SearchReport({question, answer}, "").find("per second\n"), std::string::npos);
}

TEST(AnswerJson, HasStopReasonAndNotes) {
  auto answer = Answer();
  auto question = Question();
  const auto json = [&] { return *AnswerJson({question, answer}); };
  EXPECT_TRUE(json()["search"]["stopped"].is_null());
  EXPECT_EQ(json()["search"]["plans_left"], 0);
  EXPECT_EQ(json()["notes"], nlohmann::ordered_json::array());
  EXPECT_EQ(StopNote(answer, 0, 0, {}), "");
  EXPECT_EQ(SearchReport({question, answer}, "").find("ended by"), std::string::npos);
  EXPECT_EQ(json()["search"]["reused_op_times"], 0);
  EXPECT_EQ(SearchReport({question, answer}, "").find("earlier study"), std::string::npos);

  answer.set_reused_op_times(40);
  EXPECT_EQ(json()["search"]["reused_op_times"], 40);
  EXPECT_NE(SearchReport({question, answer}, "")
                .find("\n  40 op times are from an earlier run on the same device with the same build\n"),
            std::string::npos);
  answer.set_reused_op_times(0);

  EXPECT_EQ(json()["search"]["reused_trials"], 0);
  answer.set_reused_trials(1);
  EXPECT_EQ(json()["search"]["reused_trials"], 1);
  EXPECT_THAT(SearchReport({question, answer}, ""),
              HasSubstr("\n  1 measurement is reused from earlier studies (--fresh measures anew)\n"));
  answer.set_reused_trials(0);

  answer.set_stopped("max_trials");
  answer.set_plans_left(5);
  question.notes = {"one", "two"};
  EXPECT_EQ(json()["search"]["stopped"], "max_trials");
  EXPECT_EQ(json()["search"]["plans_left"], 5);
  EXPECT_EQ(json()["notes"], nlohmann::ordered_json({"one", "two"}));
  EXPECT_EQ(StopNote(answer, 0, 2, {}),
            "--max-trials 2 ended the search with 5 plans left that it would have measured, 2 measured; "
            "allow more trials to have them measured");
  EXPECT_NE(SearchReport({question, answer}, "")
                .find("\n  ended by --max-trials, with 5 plans left that it would have measured\n"),
            std::string::npos);

  answer.set_stopped("time_budget");
  answer.set_plans_left(1);
  answer.mutable_counts()->set_measured(0);
  EXPECT_EQ(
      StopNote(answer, 1.5, 0, {}),
      "nothing was measured: the time budget of 1.5 s ended the search before the first of 1 plan; give more "
      "time to have them measured");
  EXPECT_NE(SearchReport({question, answer}, "")
                .find("\n  ended by its time budget, with 1 plan left that it would have measured\n"),
            std::string::npos);
}

// Plans that were tried without a measurement are not plans that the search never came to.
TEST(SearchReport, SaysWhatBecameOfPlansThatWereTried) {
  auto answer = Answer();
  answer.set_stopped("max_trials");
  answer.set_plans_left(14);
  answer.mutable_counts()->set_measured(0);
  std::vector<v1::Trial> trials(3);
  trials[0].set_state(v1::TRIAL_STATE_INFEASIBLE);
  trials[0].set_name("studies/6/trials/1");
  trials[1].set_state(v1::TRIAL_STATE_INFEASIBLE);
  trials[2].set_state(v1::TRIAL_STATE_FAILED);
  TrialEnds ends = EndsOf(trials);
  EXPECT_EQ(ends.did_not_fit, 2);
  EXPECT_EQ(ends.first_unfit, "studies/6/trials/1");
  EXPECT_EQ(StopNote(answer, 0, 3, ends),
            "nothing was measured: 3 plans were tried (2 did not fit in memory, 1 gave no answer), and "
            "--max-trials 3 ended the search with 14 plans left; allow more trials to have them measured");
  trials.resize(1);
  ends = EndsOf(trials);
  answer.set_stopped("time_budget");
  EXPECT_EQ(StopNote(answer, 2, 0, ends),
            "nothing was measured: 1 plan was tried (1 did not fit in memory), and the time budget of 2 s "
            "ended the search with 14 plans left; give more time to have them measured");
  (*answer.mutable_counts()->mutable_rejected())["measured_out_of_memory"] = 2;
  EXPECT_THAT(SearchReport({Question(), answer}, ""),
              testing::HasSubstr("; 0 measured,\n       2 out of memory when tried\n"));
}

TEST(AnswerJson, PlansThatAreNotShownAreCounted) {
  auto answer = Answer();
  EXPECT_EQ((*AnswerJson({Question(), answer}))["measured_not_shown"], 0);
  EXPECT_THAT(SearchReport({Question(), answer}, ""), Not(HasSubstr("more plan")));
  answer.set_measured_not_shown(3);
  answer.set_tied_not_shown(2);
  const auto json = *AnswerJson({Question(), answer});
  EXPECT_EQ(json["measured_not_shown"], 3);
  EXPECT_EQ(json["why"]["tied"], 2);
  const std::string text = SearchReport({Question(), answer}, "");
  EXPECT_THAT(text, HasSubstr("2 plans are tied with the best plan"));
  EXPECT_THAT(text, HasSubstr("3 more plans were measured; trials lists them."));
  answer.set_measured_not_shown(1);
  EXPECT_THAT(SearchReport({Question(), answer}, ""),
              HasSubstr("1 more plan was measured; trials lists it."));
}

}  // namespace
}  // namespace autocfg::cli
