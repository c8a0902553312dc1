#include "cli/report/results_json.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "cli/report/prediction_report.h"
#include "cli/report/report.h"
#include "fmt/format.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

SearchQuestion Question() {
  SearchQuestion question;
  question.model.name = "mine";
  question.model.layers = 4;
  question.model.hidden = 64;
  question.model.heads = 4;
  question.model.vocab = 512;
  FillDefaults(question.model, 32);
  question.cluster.name = "local:1x2";
  question.cluster.local = true;
  NodeGroup group;
  group.device.name = "cpu";
  group.device.memory_bytes = 1 << 30;
  group.gpus_per_node = 2;
  question.cluster.groups.push_back(group);
  question.workload = {16, 32, *ParsePrecision("fp64")};
  return question;
}

v1::Candidate Candidate(const std::string& plan_text, double measured_s) {
  v1::Candidate candidate;
  *candidate.mutable_plan() = ToProto(*ParsePlanText(plan_text));
  candidate.set_plan_text(plan_text);
  candidate.mutable_predicted()->set_feasible(true);
  candidate.mutable_predicted()->set_step_time_s(0.5);
  candidate.mutable_predicted()->mutable_memory_bytes()->set_total(1000);
  if (measured_s > 0) {
    auto& measured = *candidate.mutable_measured();
    measured.set_median_step_time_s(measured_s);
    measured.set_ci95_s(measured_s / 100);
    measured.add_step_time_s(measured_s);
    measured.set_peak_memory_bytes(900);
  }
  return candidate;
}

v1::Recommendation Answer() {
  v1::Recommendation answer;
  answer.set_study("studies/7");
  *answer.mutable_best() = Candidate("tp=1,pp=2,dp=1,mbs=2,recompute=full", 0.25);
  *answer.add_runners_up() = Candidate("tp=2,pp=1,dp=1,mbs=2", 0.375);
  *answer.add_runners_up() = Candidate("tp=1,pp=1,dp=2,mbs=2", 0);
  auto& counts = *answer.mutable_counts();
  counts.set_enumerated(30);
  counts.set_illegal(10);
  counts.set_predicted(20);
  counts.set_evaluated(20);
  counts.set_measured(2);
  (*counts.mutable_rejected())["heads_not_divisible"] = 10;
  answer.set_wall_s(12);
  return answer;
}

TEST(SearchJson, HasTheContractsKeys) {
  const auto json = SearchJson(Answer(), Question());
  ASSERT_TRUE(json.ok()) << json.status();
  for (const char* key : {"study", "model", "parameters", "cluster", "workload", "versions", "best",
                          "runners_up", "counts", "rejected", "search"}) {
    EXPECT_TRUE(json->contains(key)) << key;
  }
  const auto& best = (*json)["best"];
  EXPECT_EQ(best["provenance"], "measured");
  EXPECT_EQ(best["measured"]["step_time_s"], 0.25);
  EXPECT_EQ(best["measured"]["ci95_s"], 0.0025);
  EXPECT_EQ(best["measured"]["peak_memory_bytes"], 900);
  EXPECT_EQ(best["measured"]["tokens_per_s"], 16 * 32 / 0.25);
  EXPECT_EQ(best["predicted"]["step_time_s"], 0.5);
  EXPECT_EQ(best["plan"]["pp"], 2);
  EXPECT_EQ(best["plan"]["micro_batch"], 2);
  EXPECT_EQ((*json)["runners_up"][1]["provenance"], "predicted");
  EXPECT_TRUE((*json)["runners_up"][1]["measured"].is_null());
  EXPECT_EQ((*json)["counts"]["enumerated"], 30);
  EXPECT_EQ((*json)["rejected"]["heads_not_divisible"], 10);
  EXPECT_EQ((*json)["search"]["wall_s"], 12);
  for (const char* key : {"autocfg", "build_id", "engine"})
    EXPECT_TRUE((*json)["versions"].contains(key)) << key;
}

TEST(SearchJson, StatesTheMemoryMargin) {
  auto answer = Answer();
  EXPECT_EQ((*SearchJson(answer, Question()))["memory_margin"], 0);
  EXPECT_EQ(SearchReport(answer, Question(), "").find("memory margin"), std::string::npos);
  answer.set_memory_margin(0.05);
  EXPECT_EQ((*SearchJson(answer, Question()))["memory_margin"], 0.05);
  EXPECT_NE(
      SearchReport(answer, Question(), "").find("memory margin: plans leave 5% of a rank's memory free\n"),
      std::string::npos);
}

TEST(SearchJson, SaysWhyTheBestPlanIsTheBest) {
  auto answer = Answer();
  auto& effect = *answer.mutable_matters_most();
  effect.set_option("tp");
  effect.set_chosen("1");
  effect.set_instead("2");
  effect.set_costs(0.5);
  effect.set_because("tp=2 in place of tp=1 costs 50%");
  effect.set_only_this_changed(true);
  *effect.mutable_plan() = ToProto(*ParsePlanText("tp=2,pp=1"));
  const auto why = (*SearchJson(answer, Question()))["why"];
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
  const auto alone = (*SearchJson(answer, Question()))["why"]["matters_most"];
  EXPECT_EQ(alone["costs_alone"], 0.75);
  EXPECT_EQ(alone["plan_alone"]["micro_batch"], 2);
  EXPECT_EQ(alone["plan_alone_text"], "tp=2,pp=1,dp=1,mbs=2");
  EXPECT_NE(SearchReport(answer, Question(), "")
                .find("why: the runner-up takes 50.0% more (375 ms, measured)\n"
                      "     tp matters most: tp=2 in place of tp=1 costs 50%\n"),
            std::string::npos)
      << SearchReport(answer, Question(), "");
  effect.set_costs(0.01);
  EXPECT_NE(SearchReport(answer, Question(), "").find("     no option matters much; tp matters most: tp=2"),
            std::string::npos);
  answer.clear_runners_up();
  answer.clear_matters_most();
  const auto none = (*SearchJson(answer, Question()))["why"];
  for (const char* key : {"runner_up", "lead", "matters_most"}) EXPECT_TRUE(none[key].is_null()) << key;
  EXPECT_EQ(SearchReport(answer, Question(), "").find("why:"), std::string::npos);
  answer.set_nothing_fits("nothing");
  EXPECT_TRUE((*SearchJson(answer, Question()))["why"].is_null());
}

TEST(SearchJson, NamesWhatPredictionsDoNotTellApart) {
  EXPECT_EQ((*SearchJson(Answer(), Question()))["why"]["predicted_ties"], nullptr) << "it was measured";
  v1::Recommendation answer;
  const auto plan = [](const char* text, double seconds, std::int64_t bytes) {
    v1::Candidate candidate = Candidate(text, 0);
    candidate.mutable_predicted()->set_step_time_s(seconds);
    candidate.mutable_predicted()->mutable_memory_bytes()->set_total(bytes);
    candidate.mutable_predicted()->mutable_memory_bytes()->set_capacity(1000);
    return candidate;
  };
  *answer.mutable_best() = plan("tp=1,pp=2,dp=1,mbs=2", 1, 940);
  const auto ties = [&] { return (*SearchJson(answer, Question()))["why"]["predicted_ties"]; };
  EXPECT_EQ(ties()["count"], 0);
  EXPECT_EQ(SearchReport(answer, Question(), "").find("tell apart"), std::string::npos);
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
  EXPECT_NE(SearchReport(answer, Question(), "")
                .find("     3 runners-up are within 3%, which predictions do not tell apart; the\n"
                      "       careful choice leaves 26% of the memory free in place of 6% (1.02 s):\n"
                      "       tp=2,pp=1,dp=1,mbs=2\n"),
            std::string::npos)
      << SearchReport(answer, Question(), "");
}

TEST(SearchJson, HasTheFrontOfTimeAndMemory) {
  auto answer = Answer();
  EXPECT_EQ((*SearchJson(answer, Question()))["pareto_memory"], nlohmann::ordered_json::array());
  for (int i = 0; i < 20; ++i) {
    auto& plan = *answer.add_pareto_memory();
    plan = Candidate(i == 0 ? "tp=1,pp=2,dp=1,mbs=2" : "tp=2,pp=1,dp=1,mbs=" + std::to_string(i),
                     i == 0 ? 0.25 : 0);
    plan.mutable_predicted()->mutable_memory_bytes()->set_total(2000 - i);
  }
  const auto front = (*SearchJson(answer, Question()))["pareto_memory"];
  ASSERT_EQ(front.size(), 20u);
  EXPECT_EQ(front[0]["plan"]["pp"], 2);
  EXPECT_EQ(front[0]["step_time_s"], 0.25);
  EXPECT_EQ(front[0]["provenance"], "measured");
  EXPECT_EQ(front[1]["step_time_s"], 0.5);
  EXPECT_EQ(front[1]["total_memory_bytes"], 1999);
  EXPECT_EQ(SearchReport(answer, Question(), "").find("less memory"), std::string::npos);
  const std::string text = SearchReport(answer, Question(), "", "", /*front=*/true);
  EXPECT_NE(text.find("less memory for more time"), std::string::npos);
  EXPECT_NE(text.find("250 ms     measured"), std::string::npos) << text;
  EXPECT_NE(text.find("500 ms     predicted"), std::string::npos) << text;
  EXPECT_NE(text.find("mbs=19"), std::string::npos) << "the last of them\n" << text;
  EXPECT_EQ(text.find("mbs=1 "), std::string::npos) << "a few lines of it\n" << text;
}

TEST(SearchReport, SaysHowFastPlansAreEvaluated) {
  auto answer = Answer();
  auto question = Question();
  answer.set_plan_cpu_s(0);
  EXPECT_EQ(EvaluatedPerSecond(answer), 0);
  answer.set_plan_cpu_s(0.5);
  answer.mutable_counts()->set_evaluated(20'000);
  EXPECT_EQ(EvaluatedPerSecond(answer), 40'000);
  EXPECT_EQ((*SearchJson(answer, question))["search"]["evaluated_per_s"], 40'000);
  question.predict_only = true;
  EXPECT_NE(SearchReport(answer, question, "").find(", 40,000 plans"), std::string::npos);
  question.predict_only = false;
  EXPECT_EQ(SearchReport(answer, question, "").find("per second\n"), std::string::npos);
}

// 0.25 s and 0.375 s, each with its interval.
TEST(SearchJson, TiesAreCalledTies) {
  auto answer = Answer();
  const auto question = Question();
  const auto tied = [&](double best_ci95_s, double other_ci95_s) {
    answer.mutable_best()->mutable_measured()->set_ci95_s(best_ci95_s);
    answer.mutable_runners_up(0)->mutable_measured()->set_ci95_s(other_ci95_s);
    const int count = (*SearchJson(answer, question))["why"]["tied"];
    const bool said = SearchReport(answer, question, "").find("1 plan is tied") != std::string::npos;
    EXPECT_EQ(said, count == 1);
    return count;
  };
  EXPECT_EQ(tied(0.05, 0.05), 0);
  EXPECT_EQ(tied(0.1, 0.05), 1);
  answer.mutable_runners_up(0)->mutable_measured()->set_slice(true);
  EXPECT_EQ(tied(0.1, 0.05), 0);
}

TEST(SearchJson, PlansThatAreNotShownAreCounted) {
  auto answer = Answer();
  EXPECT_EQ((*SearchJson(answer, Question()))["measured_not_shown"], 0);
  EXPECT_THAT(SearchReport(answer, Question(), ""), Not(HasSubstr("more plan")));
  answer.set_measured_not_shown(3);
  answer.set_tied_not_shown(2);
  const auto json = *SearchJson(answer, Question());
  EXPECT_EQ(json["measured_not_shown"], 3);
  EXPECT_EQ(json["why"]["tied"], 2);
  const std::string text = SearchReport(answer, Question(), "");
  EXPECT_THAT(text, HasSubstr("2 plans are tied with the best plan"));
  EXPECT_THAT(text, HasSubstr("3 more plans were measured; trials lists them."));
  answer.set_measured_not_shown(1);
  EXPECT_THAT(SearchReport(answer, Question(), ""), HasSubstr("1 more plan was measured; trials lists it."));
}

TEST(SearchJson, CorrectedPredictionsStandApart) {
  auto answer = Answer();
  const auto question = Question();
  answer.mutable_best()->clear_corrected();
  EXPECT_TRUE((*SearchJson(answer, question))["best"]["corrected"].is_null());
  EXPECT_EQ(SearchReport(answer, question, "").find("\n  corrected "), std::string::npos);
  *answer.mutable_best()->mutable_corrected() = answer.best().predicted();
  answer.mutable_best()->mutable_corrected()->set_step_time_s(0.25);
  const auto json = *SearchJson(answer, question);
  EXPECT_EQ(json["best"]["predicted"]["step_time_s"], 0.5);
  EXPECT_EQ(json["best"]["corrected"]["step_time_s"], 0.25);
  EXPECT_NE(SearchReport(answer, question, "").find("\n  corrected "), std::string::npos);
}

TEST(SearchJson, SaysHowLikelyABetterPlanIs) {
  auto answer = Answer();
  const auto question = Question();
  answer.clear_chance_of_better();
  EXPECT_TRUE((*SearchJson(answer, question))["search"]["chance_of_better"].is_null());
  EXPECT_EQ(SearchReport(answer, question, "").find("chance that"), std::string::npos);
  for (const auto& [chance, text] :
       {std::pair(0.034, "at most 3%"), std::pair(0.004, "less than 1%"), std::pair(1.0, "at most 100%")}) {
    answer.set_chance_of_better(chance);
    EXPECT_EQ((*SearchJson(answer, question))["search"]["chance_of_better"], chance);
    EXPECT_NE(SearchReport(answer, question, "")
                  .find(fmt::format(
                      "\n  chance that a plan that was not measured is more than 1% faster: {}\n", text)),
              std::string::npos);
  }
}

TEST(SearchJson, HasStopReasonAndNotes) {
  auto answer = Answer();
  auto question = Question();
  const auto json = [&] { return *SearchJson(answer, question); };
  EXPECT_TRUE(json()["search"]["stopped"].is_null());
  EXPECT_EQ(json()["search"]["plans_left"], 0);
  EXPECT_EQ(json()["notes"], nlohmann::ordered_json::array());
  EXPECT_EQ(StopNote(answer, 0, 0, {}), "");
  EXPECT_EQ(SearchReport(answer, question, "").find("ended by"), std::string::npos);
  EXPECT_EQ(json()["search"]["reused_op_times"], 0);
  EXPECT_EQ(SearchReport(answer, question, "").find("earlier study"), std::string::npos);

  answer.set_reused_op_times(40);
  EXPECT_EQ(json()["search"]["reused_op_times"], 40);
  EXPECT_NE(SearchReport(answer, question, "")
                .find("\n  40 op times are from an earlier run on the same device with the same build\n"),
            std::string::npos);
  answer.set_reused_op_times(0);

  EXPECT_EQ(json()["search"]["reused_trials"], 0);
  answer.set_reused_trials(1);
  EXPECT_EQ(json()["search"]["reused_trials"], 1);
  EXPECT_THAT(SearchReport(answer, question, ""),
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
  EXPECT_NE(SearchReport(answer, question, "")
                .find("\n  ended by --max-trials, with 5 plans left that it would have measured\n"),
            std::string::npos);

  answer.set_stopped("time_budget");
  answer.set_plans_left(1);
  answer.mutable_counts()->set_measured(0);
  EXPECT_EQ(
      StopNote(answer, 1.5, 0, {}),
      "nothing was measured: the time budget of 1.5 s ended the search before the first of 1 plan; give more "
      "time to have them measured");
  EXPECT_NE(SearchReport(answer, question, "")
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
  EXPECT_THAT(SearchReport(answer, Question(), ""),
              testing::HasSubstr("; 0 measured,\n       2 out of memory when tried\n"));
}

TEST(SearchReport, AnEqualRunnerUpTakesAsLong) {
  auto answer = Answer();
  const double best_s = answer.best().measured().median_step_time_s();
  answer.mutable_runners_up(0)->mutable_measured()->set_median_step_time_s(best_s * 0.9999);
  EXPECT_THAT(SearchReport(answer, Question(), ""), testing::HasSubstr("why: the runner-up takes as long ("));
}

TEST(ShortPlan, OmitsStagesOfALongSplit) {
  std::string split = "3";
  for (int stage = 1; stage < 96; ++stage) split += stage % 2 == 0 ? "+3" : "+4";
  const std::string plan = "tp=8,pp=96,dp=2,mbs=1,split=" + split + ",recompute=full";
  EXPECT_EQ(ShortPlan(plan, 70), "tp=8,pp=96,dp=2,mbs=1,split=3+4+3+4+3+4+... (96 stages),recompute=full")
      << "of 70 characters";
  EXPECT_EQ(ShortPlan("tp=8,pp=2,dp=2,mbs=1,split=5+7", 70), "tp=8,pp=2,dp=2,mbs=1,split=5+7");
  EXPECT_EQ(ShortPlan("tp=8,pp=5,dp=2,mbs=1,split=3+4+4+4+3,sp=1", 70),
            "tp=8,pp=5,dp=2,mbs=1,split=3+4x3+3,sp=1");
  EXPECT_EQ(ShortPlan("tp=8,pp=2,dp=2,mbs=1", 5), "tp=8,pp=2,dp=2,mbs=1") << "there is no split to shorten";
  EXPECT_EQ(ShortPlan(plan, 10), "tp=8,pp=96,dp=2,mbs=1,split=... (96 stages),recompute=full");
}

// Splits over many stages are shortened so that every line of a table fits a terminal; the JSON keeps them
// whole.
TEST(SearchReport, LongSplitsFitATerminal) {
  std::string split = "1";
  for (int stage = 1; stage < 96; ++stage) split += "+1";
  auto question = Question();
  question.model.layers = 96;
  v1::Recommendation answer = Answer();
  *answer.mutable_best() = Candidate("tp=1,pp=96,dp=1,mbs=2,split=2" + split + ",recompute=full", 0.25);
  *answer.mutable_runners_up(0) = Candidate("tp=1,pp=96,dp=1,mbs=2,split=" + split + "+2", 0.375);
  for (int i = 0; i < 12; ++i)
    (*answer.mutable_counts()
          ->mutable_rejected())[std::string("a_reason_of_some_length_") + std::to_string(i)] = 123'456;
  answer.set_wall_s(4000);
  answer.set_device_s(40'000);
  answer.set_exhaustive_device_s(400'000);
  EXPECT_NE(SearchReport(answer, question, "").find(" 123,456,\n          a_reason_of"), std::string::npos)
      << SearchReport(answer, question, "");
  std::istringstream lines(SearchReport(answer, question, ""));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

// If a slice was measured, the answer explains that its time is not a step time of the plan.
TEST(SearchReport, ExplainsSlices) {
  v1::Recommendation answer = Answer();
  EXPECT_EQ(SearchReport(answer, Question(), "").find("slice"), std::string::npos);
  answer.mutable_runners_up(0)->mutable_measured()->set_slice(true);
  const std::string report = SearchReport(answer, Question(), "");
  EXPECT_NE(report.find("it is not a step time of the plan"), std::string::npos) << report;
  EXPECT_EQ((*SearchJson(answer, Question()))["runners_up"][0]["provenance"], "predicted");
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(ParametersText, HasThreeDigitsAndAUnit) {
  ModelSpec model{.layers = 1, .hidden = 1000, .heads = 1, .kv_heads = 1, .head_dim = 1};
  model.position = Position::kNone;
  model.vocab = 1;
  EXPECT_EQ(ParametersText(model), "0.013 M");
  model.vocab = 999'400;
  EXPECT_EQ(ParametersText(model), "999 M");
  model.vocab = 999'600;
  EXPECT_EQ(ParametersText(model), "1 B");
  model.vocab = 8'030'000;
  EXPECT_EQ(ParametersText(model), "8.03 B");
  model.vocab = 99'000'000;
  model.hidden = 12'000;
  EXPECT_EQ(ParametersText(model), "1.19 T");
}

TEST(SearchReport, SaysHowManyParameters) {
  EXPECT_NE(SearchReport(Answer(), Question(), "").find("params: " + ParametersText(Question().model) + "\n"),
            std::string::npos)
      << SearchReport(Answer(), Question(), "");
  EXPECT_EQ((*SearchJson(Answer(), Question()))["parameters"], ParameterCount(Question().model));
}

TEST(SearchJson, PredictedRatesArePerRank) {
  auto question = Question();
  const auto model_flops = ModelFlops(question.model, 16 * 32, 32);
  auto json = *SearchJson(Answer(), question);
  const auto& best = json["best"]["predicted"];  // on two ranks, with full recomputation
  EXPECT_EQ(best["reason"], "") << "it fits";
  EXPECT_EQ(best["tokens_per_s"], 16 * 32 / 0.5);
  EXPECT_EQ(best["tokens_per_s_per_gpu"], 16 * 32 / 0.5 / 2);
  EXPECT_DOUBLE_EQ(best["model_flops_per_s_per_gpu"].get<double>(), model_flops / 0.5 / 2);
  EXPECT_GT(best["hardware_flops_per_s_per_gpu"], best["model_flops_per_s_per_gpu"].get<double>());
  EXPECT_TRUE(best["mfu"].is_null()) << "nobody knows this CPU's peak";
  const auto& other = json["runners_up"][0]["predicted"];
  EXPECT_EQ(other["hardware_flops_per_s_per_gpu"], other["model_flops_per_s_per_gpu"]);

  question.cluster.groups[0].device.flops_per_s_fp64 = 1e12;
  auto answer = Answer();
  answer.mutable_best()->mutable_predicted()->set_feasible(false);
  answer.mutable_best()->mutable_predicted()->set_reason("7 bytes over");
  json = *SearchJson(answer, question);
  EXPECT_DOUBLE_EQ(json["best"]["predicted"]["mfu"].get<double>(), model_flops / 0.5 / 2 / 1e12);
  EXPECT_EQ(json["best"]["predicted"]["reason"], "7 bytes over");
}

TEST(SearchJson, RoundTrips) {
  const auto question = Question();
  const auto json = SearchJson(Answer(), question);
  ASSERT_TRUE(json.ok());
  auto run = ParseSearchJson(json->dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->model, question.model);
  EXPECT_EQ(run->workload, question.workload);
  EXPECT_EQ(PlanText(run->plan), "tp=1,pp=2,dp=1,mbs=2,recompute=full");
}

TEST(SearchJson, NothingFits) {
  auto answer = Answer();
  answer.clear_best();
  answer.clear_runners_up();
  answer.set_nothing_fits("the smallest plan is 5 bytes over");
  const auto json = SearchJson(answer, Question());
  ASSERT_TRUE(json.ok());
  EXPECT_TRUE((*json)["best"].is_null());
  EXPECT_TRUE(absl::IsFailedPrecondition(ParseSearchJson(json->dump()).status()));
  EXPECT_NE(SearchReport(answer, Question(), "next").find("5 bytes over"), std::string::npos);
}

TEST(ParseSearchJson, ErrorsNameTheField) {
  const auto good = *SearchJson(Answer(), Question());
  const auto says = [](const nlohmann::ordered_json& json, const std::string& part) {
    const auto status = ParseSearchJson(json.dump()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in: " << status;
  };
  says("text", "model");
  says({{"losses", {1, 2}}}, "model");
  auto json = good;
  json["model"]["layers"] = -1;
  says(json, "layers");
  json = good;
  json["workload"]["global_batch"] = 0;
  says(json, "global_batch");
  json = good;
  json["workload"]["precision"] = "fp5";
  says(json, "unknown precision 'fp5'; expected fp64");
  json = good;
  json["best"]["plan"]["tp"] = "many";
  says(json, "plan");
  json = good;
  json["best"]["plan"] = nlohmann::ordered_json::object();
  says(json, "best: 'plan' is empty");
  json = good;
  json["best"] = 3;
  says(json, "best");
  EXPECT_TRUE(absl::IsInvalidArgument(ParseSearchJson(good.dump().substr(0, 100)).status()))
      << "a truncated file";
  EXPECT_TRUE(absl::IsInvalidArgument(ParseSearchJson(R"({"best": 1, "best": 2})").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseSearchJson("").status()));
}

TEST(SearchReport, EveryTimeIsLabelled) {
  const std::string text = SearchReport(Answer(), Question(), "autocfg train --input best.json --steps 10");
  EXPECT_NE(text.find("tp=1,pp=2,dp=1,mbs=2,recompute=full  (measured)"), std::string::npos) << text;
  EXPECT_NE(text.find("measured"), std::string::npos);
  EXPECT_NE(text.find("predicted"), std::string::npos);
  EXPECT_NE(text.find("30 enumerated = 10 illegal + 0 out of memory + 20 predicted; 2 measured"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("heads_not_divisible 10"), std::string::npos);
  EXPECT_NE(text.find("machine: this one, 2 ranks on its cpu, 1.0 GiB a rank"), std::string::npos) << text;
  EXPECT_NE(text.find("model: mine, 16 sequences of 32 tokens a step, fp64"), std::string::npos) << text;
  EXPECT_NE(text.find("next: autocfg train --input best.json"), std::string::npos);
}

TEST(SearchReport, PredictOnlyNeverSaysMeasured) {
  auto question = Question();
  question.cluster.local = false;
  question.cluster.name = "a100-80gb-sxm:1x2";
  question.predict_only = true;
  auto answer = Answer();
  *answer.mutable_best() = Candidate("tp=1,pp=2,dp=1,mbs=2", 0);
  answer.clear_runners_up();
  *answer.add_runners_up() = Candidate("tp=2,pp=1,dp=1,mbs=2", 0);
  const std::string text = SearchReport(answer, question, "autocfg explain");
  EXPECT_EQ(text.find("measur"), std::string::npos) << text;
  EXPECT_NE(text.find("best plan: tp=1,pp=2,dp=1,mbs=2  (predicted)"), std::string::npos) << text;
  EXPECT_NE(text.find("cluster: a100-80gb-sxm:1x2, 2 ranks\n"), std::string::npos) << text;
  const auto json = *SearchJson(answer, question);
  EXPECT_EQ(json["best"]["provenance"], "predicted");
  EXPECT_EQ(json["best"]["measured"], nullptr);
  EXPECT_EQ(json["device"], nullptr);
}

TEST(SearchReport, EmulatedTimesAreMarked) {
  auto question = Question();
  question.device = EngineDevice::kPaced;
  EXPECT_NE(SearchReport(Answer(), question, "").find("(measured on the paced device: emulated)"),
            std::string::npos);
  const auto json = *SearchJson(Answer(), question);
  EXPECT_EQ(json["best"]["measured"]["emulated"], true);
  EXPECT_EQ(json["device"], "paced");
  EXPECT_EQ((*SearchJson(Answer(), Question()))["best"]["measured"]["emulated"], false);
}

TEST(SearchReport, AnotherEngineIsNamedWithItsVersion) {
  auto answer = Answer();
  v1::Measurement& measured = *answer.mutable_best()->mutable_measured();
  EXPECT_EQ((*SearchJson(answer, Question()))["best"]["measured"]["engine"], "autocfg");
  EXPECT_EQ((*SearchJson(answer, Question()))["best"]["measured"]["engine_version"], measured.build_id());
  measured.set_engine("megatron");
  measured.set_engine_version("core 0.15");
  measured.set_peak_memory_bytes(std::int64_t{3} << 30);
  const std::string text = SearchReport(answer, Question(), "");
  EXPECT_NE(text.find("(measured on megatron core 0.15)"), std::string::npos) << text;
  EXPECT_NE(text.find("3.0 GiB peak, as its log says"), std::string::npos) << text;
  const auto json = *SearchJson(answer, Question());
  EXPECT_EQ(json["best"]["measured"]["engine"], "megatron");
  EXPECT_EQ(json["best"]["measured"]["engine_version"], "core 0.15");
}

TEST(SearchReport, SlicesAreMarkedAndTheirPlansPredicted) {
  auto answer = Answer();
  answer.mutable_best()->mutable_measured()->set_slice(true);
  const std::string text = SearchReport(answer, Question(), "");
  EXPECT_NE(text.find("one rank alone, a slice"), std::string::npos) << text;
  const auto json = *SearchJson(answer, Question());
  EXPECT_EQ(json["best"]["provenance"], "predicted");
  EXPECT_EQ(json["best"]["measured"]["slice"], true);
  EXPECT_EQ(json["best"]["measured"]["tokens_per_s"], nullptr) << "one rank's time is not the step's";
}

TEST(SearchJson, DescribedClusterIsReadBack) {
  auto question = Question();
  EXPECT_EQ(ParseSearchJson(SearchJson(Answer(), question)->dump())->cluster, std::nullopt) << "this machine";
  question.cluster.local = false;
  question.cluster.groups[0].device.kind = DeviceKind::kCpu;
  const auto run = ParseSearchJson(SearchJson(Answer(), question)->dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->cluster, question.cluster);
}

TEST(ParseSearchJson, ReadsEngineAndLayout) {
  auto json = *SearchJson(Answer(), Question());
  json["engine"] = "megatron";
  auto run = ParseSearchJson(json.dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->engine, "megatron");
  EXPECT_TRUE(run->local);
  EXPECT_EQ(run->ranks_per_node, 0);
  json.erase("cluster");
  json["layout"] = {{"nodes", 2}, {"ranks_per_node", 1}};  // of two ranks
  run = ParseSearchJson(json.dump());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE(run->local);
  EXPECT_EQ(run->ranks_per_node, 1);
  for (const nlohmann::ordered_json& wrong : {nlohmann::ordered_json(3), nlohmann::ordered_json(-1),
                                              nlohmann::ordered_json("1"), nlohmann::ordered_json(0)}) {
    json["layout"]["ranks_per_node"] = wrong;
    const auto status = ParseSearchJson(json.dump()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find("layout: 'ranks_per_node' is no size"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace autocfg::cli
