#include "cli/report/size_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/answer/answer_file.h"
#include "search/plan/plan_text.h"
#include "search/sizing/model_family.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

SizeAsked Budget() {
  SizeAsked asked;
  asked.question.cluster = *PresetCluster("h100-sxm:2x8");
  asked.question.days = 30;
  asked.question.seq_len = 4096;
  asked.question.precision = *ParsePrecision("bf16");
  asked.notes = {"assumed"};
  return asked;
}

// Of the family's model at this place.
SizedModel FamilyMember(std::size_t place, SizeVerdict verdict) {
  SizedModel sized;
  sized.model = FamilyOfSizes(4096)[place];
  sized.workload = {128, 4096, *ParsePrecision("bf16")};
  sized.verdict = verdict;
  sized.tokens = 128 * 4096 * 1000.0;
  if (verdict == SizeVerdict::kOutOfMemory) sized.reason = "no plan fits in memory: it needs 99 GiB";
  if (verdict == SizeVerdict::kTooManyRanks) sized.reason = "a step of 128 sequences cannot be split";
  if (!sized.reason.empty()) return sized;
  sized.plan = *ParsePlanText("dp=16,zero=1");
  sized.predicted.step_time_s = verdict == SizeVerdict::kInTime ? 864 : 8640;
  sized.predicted.feasible = true;
  sized.predicted.capacity_bytes = 80 << 20;
  sized.days = sized.predicted.step_time_s * 1000 / 86400;
  return sized;
}

SizeAnswer Found(SizeVerdict next) {
  SizeAnswer answer;
  answer.best = FamilyMember(8, SizeVerdict::kInTime);
  answer.next_larger = FamilyMember(9, next);
  answer.tried = {*answer.best, *answer.next_larger};
  return answer;
}

TEST(SizeReport, NamesTheModelAndWhyNoLargerOne) {
  const std::string text = SizeReport(Found(SizeVerdict::kTooLong), Budget(), "autocfg search ...");
  EXPECT_THAT(text, HasSubstr("model size: 8.03 billion parameters: dense-8.03b  (predicted)\n"));
  EXPECT_THAT(text, HasSubstr("32 layers, hidden 4096, 32 heads (8 of keys and values)"));
  EXPECT_THAT(text, HasSubstr("524.3M (20 for each parameter) in 1,000 steps"));
  EXPECT_THAT(text, HasSubstr("10.0 days of 30.0 days"));
  EXPECT_THAT(text, HasSubstr("best plan        tp=1,pp=1,dp=16,mbs=1,zero=1\n"));
  EXPECT_THAT(text, HasSubstr("parameters: it needs 100 days for 524.3M\n             tokens\n"));
  EXPECT_THAT(text, HasSubstr("next: autocfg search ...\n"));
  EXPECT_THAT(text, Not(HasSubstr("cost")));
  EXPECT_THAT(SizeReport(Found(SizeVerdict::kOutOfMemory), Budget(), ""),
              HasSubstr("parameters: no plan fits in memory: it\n             needs 99 GiB\n"));
}

TEST(SizeReport, SaysWhatItCosts) {
  SizeAsked asked = Budget();
  asked.terms.price_per_gpu_hour = 2;
  asked.question.tokens = 5e8;
  const std::string text = SizeReport(Found(SizeVerdict::kTooLong), asked, "");
  EXPECT_THAT(text, HasSubstr("10.0 days,\n  3,840 GPU-hours, cost 7,680"));
  EXPECT_THAT(text, Not(HasSubstr("for each parameter")));
}

TEST(SizeReport, SaysIfThereIsNoLargerModel) {
  SizeAnswer answer = Found(SizeVerdict::kTooLong);
  answer.next_larger.reset();
  EXPECT_THAT(SizeReport(answer, Budget(), ""), HasSubstr("next larger: none, since this is the largest"));
  EXPECT_EQ(SizeJson(answer, Budget())["next_larger"], nullptr);
}

TEST(SizeJson, HasTheDocumentedKeys) {
  SizeAsked asked = Budget();
  asked.terms.price_per_gpu_hour = 2;
  const SizeAnswer answer = Found(SizeVerdict::kTooLong);
  const auto json = SizeJson(answer, asked);
  EXPECT_EQ(json["gpus"], 16);
  EXPECT_EQ(json["days_budget"], 30);
  EXPECT_EQ(json["model"], ModelJson(answer.best->model));
  EXPECT_EQ(json["parameters"], 8'030'261'248);
  EXPECT_EQ(json["tokens"], 524288000.0);
  EXPECT_DOUBLE_EQ(json["days"], 10);
  EXPECT_EQ(json["workload"]["global_batch"], 128);
  EXPECT_EQ(json["best"]["plan_text"], "tp=1,pp=1,dp=16,mbs=1,zero=1");
  EXPECT_EQ(json["best"]["predicted"]["step_time_s"], 864);
  EXPECT_GT(json["best"]["predicted"]["mfu"], 0);
  EXPECT_DOUBLE_EQ(json["training"]["cost"], 10 * 24 * 16 * 2);
  EXPECT_EQ(json["cluster"]["nodes"], 2);
  EXPECT_EQ(json["next_larger"]["verdict"], "too_long");
  EXPECT_DOUBLE_EQ(json["next_larger"]["days"], 100);
  EXPECT_EQ(json["tried"].size(), 2u);
  EXPECT_EQ(json["engine"], "autocfg");
  EXPECT_EQ(json["notes"].dump(), R"(["assumed"])");
  // It is also a file for train --input.
  const auto file = ReadAnswerFile(json.dump());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->best.plan, answer.best->plan);
}

TEST(WhyNone, NamesTheSmallestModel) {
  SizeAnswer answer;
  answer.next_larger = FamilyMember(0, SizeVerdict::kTooLong);
  answer.tried = {*answer.next_larger, FamilyMember(5, SizeVerdict::kTooLong)};
  EXPECT_THAT(WhyNone(answer, Budget()), HasSubstr("on 16 GPUs: the smallest, dense-"));
  EXPECT_THAT(WhyNone(answer, Budget()), HasSubstr("it needs 100 days"));
  answer.tried.insert(answer.tried.begin(), FamilyMember(0, SizeVerdict::kTooManyRanks));
  answer.next_larger = FamilyMember(5, SizeVerdict::kTooLong);
  EXPECT_THAT(WhyNone(answer, Budget()), HasSubstr("the smallest that can use them all, dense-"));
  const auto json = SizeJson(answer, Budget());
  EXPECT_EQ(json["model"], nullptr);
  EXPECT_EQ(json["best"], nullptr);
  EXPECT_EQ(json["reason"], WhyNone(answer, Budget()));
  EXPECT_EQ(json["tried"][0]["verdict"], "too_many_ranks");
  EXPECT_EQ(json["tried"][0]["days"], nullptr);
  answer.tried = {FamilyMember(0, SizeVerdict::kTooManyRanks)};
  answer.next_larger.reset();
  EXPECT_THAT(WhyNone(answer, Budget()), HasSubstr("no model of the family can use 16 GPUs: a step of 128"));
}

}  // namespace
}  // namespace autocfg::cli
