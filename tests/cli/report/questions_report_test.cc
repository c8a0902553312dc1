#include "cli/report/questions_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

AnsweredQuestion Entry(std::int64_t nodes, std::int64_t global_batch, double step_time_s,
                       const std::string& cluster = "toy") {
  AnsweredQuestion entry{{cluster, nodes, global_batch, 32}};
  SearchQuestion& question = entry.answer.emplace().question;
  question.predict_only = true;
  question.model = {.name = "mine", .layers = 4, .hidden = 64, .heads = 4, .vocab = 512};
  FillDefaults(question.model, 32);
  NodeGroup group;
  group.nodes = nodes;
  group.gpus_per_node = 2;
  group.device.flops_per_s_bf16 = 1e12;
  question.cluster.groups.push_back(group);
  question.workload = {global_batch, 32, *ParsePrecision("bf16")};
  v1::Recommendation& answer = entry.answer->found;
  if (step_time_s == 0) {
    answer.set_nothing_fits("the smallest plan needs 9 GiB");
    return entry;
  }
  v1::Candidate& best = *answer.mutable_best();
  best.set_plan_text("tp=2");
  *best.mutable_plan() = ToProto(*ParsePlanText("tp=2"));
  best.mutable_predicted()->set_feasible(true);
  best.mutable_predicted()->set_step_time_s(step_time_s);
  best.mutable_predicted()->mutable_memory_bytes()->set_total(1000);
  return entry;
}

TEST(OnGpuFront, KeepsWhatNothingBeats) {
  // Twice the nodes, and slower: not on the front. Equal in both: both are.
  EXPECT_THAT(OnGpuFront({Entry(1, 8, 4), Entry(2, 8, 2), Entry(4, 8, 3)}), ElementsAre(true, true, false));
  EXPECT_THAT(OnGpuFront({Entry(1, 8, 4), Entry(1, 8, 4), Entry(2, 8, 4)}), ElementsAre(true, true, false));
}

TEST(OnGpuFront, ComparesTheSameBatchAndDeviceOnly) {
  EXPECT_THAT(OnGpuFront({Entry(1, 8, 1), Entry(2, 16, 2)}), ElementsAre(true, true));
  EXPECT_THAT(OnGpuFront({Entry(1, 8, 1, "a:1x2"), Entry(2, 8, 2, "b:2x2")}), ElementsAre(true, true));
  EXPECT_THAT(OnGpuFront({Entry(1, 8, 1, "a:1x2"), Entry(2, 8, 2, "a:2x2")}), ElementsAre(true, false));
}

TEST(OnGpuFront, LeavesOutAnswersWithoutAPlan) {
  AnsweredQuestion wrong{{"toy", 1, 8, 64}};
  wrong.wrong = "workload: too long";
  EXPECT_THAT(OnGpuFront({Entry(1, 8, 0), wrong, Entry(2, 8, 5)}), ElementsAre(false, false, true));
}

TEST(QuestionsReport, HasARowForEachAndReasonsBelow) {
  const std::string text = QuestionsReport({Entry(1, 8, 0), Entry(2, 8, 0.5), Entry(4, 8, 0.75)});
  EXPECT_THAT(text, HasSubstr("  nodes  GPUs  step time  per GPU "));
  EXPECT_THAT(text, testing::ContainsRegex("\n     1      2     -          -  .* none\n"));
  // 8 * 32 tokens in 0.5 s on the 2 ranks of the plan
  EXPECT_THAT(text, testing::ContainsRegex("\n  \\*  2      4     500 ms     256 .* tp=2\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n     4      8     750 ms .* tp=2\n"));
  EXPECT_THAT(text,
              HasSubstr("no plan for 1 node, global batch 8, sequence length 32: the smallest plan needs"));
  EXPECT_THAT(text, HasSubstr("model: mine, bf16, global batch 8, sequence length 32\n"));
  EXPECT_THAT(text, Not(HasSubstr("cluster")));
  EXPECT_THAT(QuestionsReport({Entry(1, 8, 1, "a:1x2"), Entry(1, 8, 2, "b:1x2")}), HasSubstr("  b:1x2"));
}

TEST(QuestionsReport, TheLegendSaysWhatIsCompared) {
  const std::string_view of_one =
      "  * no entry of the same batch and sequence length is as fast on as few GPUs\n";
  const std::string_view of_several =
      "  * no entry of the same cluster (of any size), batch and sequence length is as\n"
      "    fast on as few GPUs\n";
  EXPECT_THAT(QuestionsReport({Entry(1, 8, 1, "a:1x2"), Entry(2, 8, 2, "a:2x2")}), HasSubstr(of_one));
  const std::string text = QuestionsReport({Entry(1, 8, 1, "a:1x2"), Entry(2, 8, 2, "b:2x2")});
  EXPECT_THAT(text, HasSubstr(of_several));
  EXPECT_THAT(text, Not(HasSubstr(of_one)));
}

TEST(QuestionsReport, HasColumnsOfWhatDiffers) {
  const std::string text = QuestionsReport({Entry(1, 8, 1), Entry(1, 1024, 2)});
  EXPECT_THAT(text, testing::ContainsRegex("nodes +batch +GPUs"));
  EXPECT_THAT(text, testing::ContainsRegex("\n  \\*  1 +1,024 +2 "));
  EXPECT_THAT(text, HasSubstr("model: mine, bf16, sequence length 32\n"));
}

TEST(QuestionsReport, HasAColumnOfPrecisionsThatDiffer) {
  AnsweredQuestion other = Entry(2, 8, 2, "b:2x2"), wrong{{"c:1x2", 1, 8, 64}};
  other.answer->question.workload.precision = *ParsePrecision("fp16");
  wrong.wrong = "workload: too long";
  const std::string text = QuestionsReport({wrong, Entry(1, 8, 1, "a:1x2"), other});
  EXPECT_THAT(text, testing::ContainsRegex("precision +GPUs"));
  EXPECT_THAT(text, testing::ContainsRegex("a:1x2 +1 .* bf16 +2 "));
  EXPECT_THAT(text, testing::ContainsRegex("b:2x2 +2 .* fp16 +4 "));
  EXPECT_THAT(text, HasSubstr("model: mine, global batch 8\n"));
  // A wrong question has no precision that could differ.
  EXPECT_THAT(QuestionsReport({wrong, Entry(1, 8, 1, "a:1x2")}),
              AllOf(Not(HasSubstr("precision")), HasSubstr("model: mine, bf16, global batch 8\n")));
}

TEST(QuestionsJson, HasTheAnswersOfSingleSearches) {
  AnsweredQuestion wrong{{"toy", {}, 8, 64}};
  wrong.wrong = "workload: too long";
  const AnsweredQuestion right = Entry(2, 8, 0.5);
  const auto json = QuestionsJson({right, wrong});
  ASSERT_TRUE(json.ok()) << json.status();
  const auto& list = (*json)["questions"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["asked"].dump(), R"({"cluster":"toy","nodes":2,"global_batch":8,"seq_len":32})");
  EXPECT_EQ(list[0]["on_gpu_front"], true);
  const auto alone = AnswerJson(*right.answer);
  ASSERT_TRUE(alone.ok()) << alone.status();
  for (const auto& [key, value] : alone->items()) EXPECT_EQ(list[0][key], value) << key;
  EXPECT_EQ(list[1]["asked"]["nodes"], nullptr);
  EXPECT_EQ(list[1]["on_gpu_front"], false);
  EXPECT_EQ(list[1]["best"], nullptr);
  EXPECT_EQ(list[1]["reason"], "workload: too long");
}

}  // namespace
}  // namespace autocfg::cli
