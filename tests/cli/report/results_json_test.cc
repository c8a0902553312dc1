// The JSON of a search's answer, and what a report's text has of the same values.
#include <cstdint>
#include <string>

#include "cli/report/report.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer_file.h"
#include "proto/answer/answer_json.h"
#include "search/plan/model_spec.h"
#include "tests/proto/answer/sample_answer.h"

namespace autocfg::cli {
namespace {

using test::Answer;
using test::Candidate;
using test::Question;

TEST(AnswerJson, HasTheContractsKeys) {
  const auto json = AnswerJson({Question(), Answer()});
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

TEST(AnswerJson, StatesTheMemoryMargin) {
  auto answer = Answer();
  EXPECT_EQ((*AnswerJson({Question(), answer}))["memory_margin"], 0);
  EXPECT_EQ(SearchReport({Question(), answer}, "").find("memory margin"), std::string::npos);
  answer.set_memory_margin(0.05);
  EXPECT_EQ((*AnswerJson({Question(), answer}))["memory_margin"], 0.05);
  EXPECT_NE(
      SearchReport({Question(), answer}, "").find("memory margin: plans leave 5% of a rank's memory free\n"),
      std::string::npos);
}

TEST(AnswerJson, HasTheFrontOfTimeAndMemory) {
  auto answer = Answer();
  EXPECT_EQ((*AnswerJson({Question(), answer}))["pareto_memory"], nlohmann::ordered_json::array());
  for (int i = 0; i < 20; ++i) {
    auto& plan = *answer.add_pareto_memory();
    plan = Candidate(i == 0 ? "tp=1,pp=2,dp=1,mbs=2" : "tp=2,pp=1,dp=1,mbs=" + std::to_string(i),
                     i == 0 ? 0.25 : 0);
    plan.mutable_predicted()->mutable_memory_bytes()->set_total(2000 - i);
  }
  const auto front = (*AnswerJson({Question(), answer}))["pareto_memory"];
  ASSERT_EQ(front.size(), 20u);
  EXPECT_EQ(front[0]["plan"]["pp"], 2);
  EXPECT_EQ(front[0]["step_time_s"], 0.25);
  EXPECT_EQ(front[0]["provenance"], "measured");
  EXPECT_EQ(front[1]["step_time_s"], 0.5);
  EXPECT_EQ(front[1]["total_memory_bytes"], 1999);
  EXPECT_EQ(SearchReport({Question(), answer}, "").find("less memory"), std::string::npos);
  const std::string text = SearchReport({Question(), answer}, "", "", /*front=*/true);
  EXPECT_NE(text.find("less memory for more time"), std::string::npos);
  EXPECT_NE(text.find("250 ms     measured"), std::string::npos) << text;
  EXPECT_NE(text.find("500 ms     predicted"), std::string::npos) << text;
  EXPECT_NE(text.find("mbs=19"), std::string::npos) << "the last of them\n" << text;
  EXPECT_EQ(text.find("mbs=1 "), std::string::npos) << "a few lines of it\n" << text;
}

TEST(AnswerJson, CorrectedPredictionsStandApart) {
  auto answer = Answer();
  const auto question = Question();
  answer.mutable_best()->clear_corrected();
  EXPECT_TRUE((*AnswerJson({question, answer}))["best"]["corrected"].is_null());
  EXPECT_EQ(SearchReport({question, answer}, "").find("\n  corrected "), std::string::npos);
  *answer.mutable_best()->mutable_corrected() = answer.best().predicted();
  answer.mutable_best()->mutable_corrected()->set_step_time_s(0.25);
  const auto json = *AnswerJson({question, answer});
  EXPECT_EQ(json["best"]["predicted"]["step_time_s"], 0.5);
  EXPECT_EQ(json["best"]["corrected"]["step_time_s"], 0.25);
  EXPECT_NE(SearchReport({question, answer}, "").find("\n  corrected "), std::string::npos);
}

TEST(AnswerJson, PredictedRatesArePerRank) {
  auto question = Question();
  const auto model_flops = ModelFlops(question.model, 16 * 32, 32);
  auto json = *AnswerJson({question, Answer()});
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
  json = *AnswerJson({question, answer});
  EXPECT_DOUBLE_EQ(json["best"]["predicted"]["mfu"].get<double>(), model_flops / 0.5 / 2 / 1e12);
  EXPECT_EQ(json["best"]["predicted"]["reason"], "7 bytes over");
}

TEST(AnswerJson, NothingFits) {
  auto answer = Answer();
  answer.clear_best();
  answer.clear_runners_up();
  answer.set_nothing_fits("the smallest plan is 5 bytes over");
  const auto json = AnswerJson({Question(), answer});
  ASSERT_TRUE(json.ok());
  EXPECT_TRUE((*json)["best"].is_null());
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadAnswerFile(json->dump()).status()));
  EXPECT_NE(SearchReport({Question(), answer}, "next").find("5 bytes over"), std::string::npos);
}

}  // namespace
}  // namespace autocfg::cli
