#include "cli/question/answer_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "search/space/search_space.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> NotesOn(const char* best, const AxisValues& space) {
  v1::SearchSpec spec;
  for (const auto& [name, values] : space) {
    auto& axis = *spec.add_space();
    axis.set_name(name);
    for (const std::string& value : values) axis.add_values(value);
  }
  v1::Recommendation answer;
  *answer.mutable_best()->mutable_plan() = ToProto(*ParsePlanText(best));
  (*answer.mutable_counts()->mutable_rejected())["param_overlap_needs_zero"] = 1200;
  (*answer.mutable_counts()->mutable_rejected())["heads_not_divisible"] = 7;
  (*answer.mutable_counts()->mutable_rejected())["split_does_not_add_up"] = 7;  // not a rule of sp
  return IdleValueNotes(spec, answer);
}

TEST(IdleValueNotes, SayWhatTheBestPlanHasInPlaceOfANamedValue) {
  EXPECT_THAT(
      NotesOn("tp=8,pp=32,dp=1", {{"param_overlap", {"1"}}, {"pp", {">=2"}}}),
      ElementsAre("--space param_overlap=1: the best plan has param_overlap=0, since param_overlap=1 has "
                  "nothing to act on at dp=1; 1,200 plans are illegal by param_overlap_needs_zero"));
  EXPECT_THAT(NotesOn("tp=1,dp=4", {{"recompute", {"selective"}}}),
              ElementsAre("--space recompute=selective: the best plan has recompute=none, since "
                          "recompute=selective has nothing to act on under attention=fused, which stores no "
                          "scores"));
  EXPECT_THAT(
      NotesOn("tp=1,dp=4", {{"sequence_parallel", {"1"}}, {"tp", {"1"}}}),
      ElementsAre("--space sequence_parallel=1: the best plan has sp=0, since sp=1 has nothing to act on "
                  "at tp=1"));
  EXPECT_THAT(NotesOn("tp=1,dp=4", {{"pp", {"<2"}}, {"schedule", {"zb-h1"}}}),
              ElementsAre("--space schedule=zb-h1: the best plan has schedule=1f1b, since schedule=zb-h1 has "
                          "nothing to act on at pp=1"));
  EXPECT_THAT(
      NotesOn("tp=4,dp=1", {{"zero", {">=1"}}}),
      ElementsAre(testing::HasSubstr("--space zero>=1: the best plan has zero=0, since zero=1 has ")));
}

TEST(IdleValueNotes, AreSilentWhereTheBestPlanHasAValueOrItWouldAct) {
  EXPECT_THAT(NotesOn("tp=8,pp=32,dp=1", {{"zero", {"0", "2"}}, {"pp", {">=2"}}}), IsEmpty());
  EXPECT_THAT(NotesOn("tp=2,pp=2,dp=4,zero=1,sp=1", {{"zero", {"1"}}, {"sp", {"1"}}, {"mbs", {"1-4"}}}),
              IsEmpty());
  EXPECT_THAT(NotesOn("tp=1,dp=4", {{"recompute", {"full:*", "none"}}, {"dp_shard", {"2"}}, {"none", {"1"}}}),
              testing::SizeIs(1))
      << "dp_shard has no zero";
  EXPECT_THAT(IdleValueNotes({}, {}), IsEmpty()) << "nothing fits";
}

TEST(EvenBatchNear, IsAMultipleOfTheRanksOrAPowerOfTwo) {
  EXPECT_EQ(EvenBatchNear(1023, 256), 1024);
  EXPECT_EQ(EvenBatchNear(1000, 256), 1024);
  EXPECT_EQ(EvenBatchNear(250, 256), 256);
  EXPECT_EQ(EvenBatchNear(70, 256), 64);
  EXPECT_EQ(EvenBatchNear(1001, 96), 960);
  for (const std::int64_t even : {256, 512, 768, 1024, 64, 128, 192, 1}) {
    EXPECT_EQ(EvenBatchNear(even, 256), std::nullopt) << even;
  }
  EXPECT_EQ(EvenBatchNear(383, 256), std::nullopt) << "256 and 512 are far away";
  EXPECT_EQ(EvenBatchNear(50, 97), std::nullopt) << "no power of two divides 97 ranks well";
}

TEST(EvenBatchNote, SaysWhatTheEvenBatchWouldTake) {
  const auto cluster = PresetCluster("h100-sxm:4x8");
  ASSERT_TRUE(cluster.ok());
  v1::SearchSpec spec;
  ModelSpec model = *ModelPreset("gpt2-124m");
  FillDefaults(model, 1024);
  *spec.mutable_model() = ToProto(model);
  *spec.mutable_cluster() = ToProto(*cluster);
  *spec.mutable_workload() = ToProto(Workload{127, 1024, *ParsePrecision("bf16")});
  spec.set_predict_only(true);
  v1::Recommendation answer;
  answer.mutable_best()->mutable_predicted()->set_step_time_s(1000);
  const std::string note = EvenBatchNote(spec, answer, {});
  EXPECT_THAT(note, testing::StartsWith("127 sequences divide over few of 32 ranks; 128 would take "));
  EXPECT_THAT(note, testing::HasSubstr("(predicted), 100% less for each sequence"));
  answer.mutable_best()->mutable_predicted()->set_step_time_s(1e-6);
  EXPECT_EQ(EvenBatchNote(spec, answer, {}), "") << "it is no faster";
  answer.mutable_best()->mutable_predicted()->set_step_time_s(1000);
  EXPECT_EQ(EvenBatchNote(spec, answer, [](const PlanningProgress&) { return false; }), "") << "stopped";
  spec.mutable_workload()->set_global_batch(128);
  EXPECT_EQ(EvenBatchNote(spec, answer, {}), "");
}

// A model of 70 billion parameters on too few GPUs.
v1::SearchSpec TooLarge() {
  v1::SearchSpec spec;
  ModelSpec model = *ModelPreset("llama2-70b");
  FillDefaults(model, 4096);
  *spec.mutable_model() = ToProto(model);
  *spec.mutable_cluster() = ToProto(*PresetCluster("h100-sxm:1x8"));
  *spec.mutable_workload() = ToProto(Workload{64, 4096, *ParsePrecision("bf16")});
  v1::SpaceAxis& axis = *spec.add_space();
  axis.set_name("mbs");
  axis.add_values("1");
  spec.set_predict_only(true);
  return spec;
}

TEST(EnoughNodesNote, SaysHowManyAreEnough) {
  v1::Recommendation answer;
  EXPECT_EQ(EnoughNodesNote(TooLarge(), answer, {}), "") << "something fits";
  answer.set_nothing_fits("none fits");
  EXPECT_THAT(
      EnoughNodesNote(TooLarge(), answer, [](const PlanningProgress&) { return true; }),
      testing::MatchesRegex("3 nodes \\(24 ranks\\) would be enough: a step takes .* there \\(predicted\\)"));
  v1::SearchSpec fewer = TooLarge();
  fewer.mutable_cluster()->mutable_groups(0)->set_nodes(2);
  EXPECT_THAT(EnoughNodesNote(fewer, answer, [](const PlanningProgress&) { return true; }),
              testing::StartsWith("3 nodes"));
  EXPECT_EQ(EnoughNodesNote(TooLarge(), answer, [](const PlanningProgress&) { return false; }), "")
      << "stopped";
}

TEST(EnoughNodesNote, SaysIfNoNumberIs) {
  v1::SearchSpec spec = TooLarge();
  spec.mutable_workload()->set_global_batch(1);
  for (const char* name : {"pp", "tp"}) {
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name(name);
    axis.add_values("1");
  }
  v1::Recommendation answer;
  answer.set_nothing_fits("none is legal");
  EXPECT_THAT(EnoughNodesNote(spec, answer, [](const PlanningProgress&) { return true; }),
              testing::StartsWith("more nodes do not help: "));
}

}  // namespace
}  // namespace autocfg::cli
