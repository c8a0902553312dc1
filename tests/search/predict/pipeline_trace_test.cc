#include "search/predict/pipeline_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "search/plan/plan_text.h"
#include "search/plan/rank_mesh.h"
#include "search/predict/predict_plan.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

Predictor PredictorOf(const std::string& cluster, std::int64_t global_batch) {
  ModelSpec model = *ModelPreset("gpt2-124m");
  FillDefaults(model);
  return *Predictor::Create({model, {global_batch, 1024, *ParsePrecision("bf16")}, *PresetCluster(cluster)});
}

// The times of one pipeline are those that the trace of all ranks has for it.
TEST(PipelineTrace, HasTheRowsOfTheWholePlan) {
  Predictor predictor = PredictorOf("h100-sxm:2x8", 96);
  for (const char* text :
       {"tp=1,pp=4,dp=2,mbs=2", "tp=4,pp=2,dp=2,mbs=1,sp=1",
        "tp=2,pp=2,dp=4,mbs=1,zero=1,dp_shard=2,grad_overlap=1", "tp=1,pp=1,dp=6,mbs=4,zero=2",
        "tp=3,pp=4,dp=1,mbs=4,schedule=zb-h1,p2p_overlap=1",
        "tp=1,pp=3,dp=4,mbs=2,vpp=2,schedule=interleaved,recompute=full", "tp=1,pp=1,dp=1,mbs=8"}) {
    const ParallelPlan plan = *ParsePlanText(text);
    const auto whole = predictor.TraceOf(plan);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const auto one = TracePipeline(predictor.costs(), *predictor.Resolve(plan));
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_NEAR(one->step_time_s, whole->step.step_time_s, 1e-12) << text;
    const RankMesh mesh(plan);
    std::vector<std::vector<TraceRow>> expected(static_cast<std::size_t>(plan.pp));
    for (const TraceRow& row : whole->step.rows) {
      if (mesh.Coordinate(row.rank, Axis::kTensor) == 0 && mesh.Coordinate(row.rank, Axis::kData) == 0)
        expected[static_cast<std::size_t>(mesh.Coordinate(row.rank, Axis::kPipeline))].push_back(row);
    }
    ASSERT_EQ(one->ranks.size(), expected.size()) << text;
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      ASSERT_EQ(one->ranks[rank].size(), expected[rank].size()) << text << ", rank " << rank;
      for (std::size_t i = 0; i < expected[rank].size(); ++i) {
        const TraceRow& seen = one->ranks[rank][i];
        EXPECT_EQ(seen.action, expected[rank][i].action);
        EXPECT_EQ(
            one->program.ranks[static_cast<std::size_t>(seen.rank)][static_cast<std::size_t>(seen.action)]
                .kind,
            whole->program
                .ranks[static_cast<std::size_t>(expected[rank][i].rank)]
                      [static_cast<std::size_t>(seen.action)]
                .kind);
        EXPECT_NEAR(seen.start_s, expected[rank][i].start_s, 1e-12);
        EXPECT_NEAR(seen.end_s, expected[rank][i].end_s, 1e-12);
      }
    }
  }
}

TEST(PipelineTrace, TracesPlansOfMoreRanksThanAWholeProgramMayHave) {
  const ParallelPlan plan = *ParsePlanText("tp=1,pp=4,dp=4096,mbs=1");
  Predictor predictor = PredictorOf("h100-sxm:2048x8", 4096 * 64);
  EXPECT_FALSE(predictor.TraceOf(plan).ok());
  const auto one = TracePipeline(predictor.costs(), plan);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->ranks.size(), 4u);
  EXPECT_NEAR(one->step_time_s, predictor.Predict(plan)->prediction.step_time_s, 1e-9);
}

TEST(PipelineTrace, RefusesAProgramThatIsTooLarge) {
  Predictor predictor = PredictorOf("h100-sxm:1x8", 1'000'000);
  const auto trace = TracePipeline(predictor.costs(), *ParsePlanText("tp=1,pp=4,dp=2,mbs=1"));
  EXPECT_TRUE(absl::IsInvalidArgument(trace.status())) << trace.status();
}

}  // namespace
}  // namespace autocfg
