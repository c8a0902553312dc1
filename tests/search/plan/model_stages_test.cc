// Tests the assignment of layers to stages and ranks.
#include "search/plan/model_stages.h"

#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

ParallelPlan StagesPlan(std::string_view text) {
  auto plan = ParsePlanText(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

ModelSpec Layers(std::int64_t layers) {
  ModelSpec model;
  model.layers = layers;
  return model;
}

// Narayanan et al. 2021, section 2.2.2: four ranks with two stages of two layers each; the first rank has
// layers 1, 2, 9 and 10.
TEST(ModelStages, AsPublished) {
  const ParallelPlan plan = StagesPlan("pp=4,vpp=2");
  EXPECT_EQ(StageCount(plan), 8);
  EXPECT_EQ(StageOf(plan, 0, 0), 0);
  EXPECT_EQ(StageOf(plan, 0, 1), 4);
  EXPECT_EQ(StageOf(plan, 3, 1), 7);
  EXPECT_EQ(StageLayers(Layers(16), plan, 0).first, 0);
  EXPECT_EQ(StageLayers(Layers(16), plan, 4).first, 8);
  EXPECT_EQ(StageLayers(Layers(16), plan, 4).count, 2);
  EXPECT_EQ(RankLayers(Layers(16), plan, 0), 4);
  EXPECT_TRUE(IsFirstStage(0));
  EXPECT_FALSE(IsFirstStage(4)) << "of the same rank";
  EXPECT_TRUE(IsLastStage(plan, 7));
  EXPECT_FALSE(IsLastStage(plan, 3)) << "of the same rank";
}

TEST(ModelStages, StagesAndChunksRoundTrip) {
  for (std::int64_t pp = 1; pp <= 6; ++pp) {
    for (std::int64_t vpp = 1; vpp <= 5; ++vpp) {
      const ParallelPlan plan{{.pp = pp}, {}, {.virtual_stages = vpp}};
      std::set<std::int64_t> stages;
      for (std::int64_t rank = 0; rank < pp; ++rank) {
        for (std::int64_t chunk = 0; chunk < vpp; ++chunk) {
          const std::int64_t stage = StageOf(plan, rank, chunk);
          EXPECT_EQ(PipelineRankOf(plan, stage), rank);
          EXPECT_EQ(ChunkOf(plan, stage), chunk);
          EXPECT_TRUE(stages.insert(stage).second);
        }
      }
      EXPECT_EQ(static_cast<std::int64_t>(stages.size()), StageCount(plan));
      EXPECT_EQ(*stages.begin(), 0);
      EXPECT_EQ(*stages.rbegin(), StageCount(plan) - 1);
    }
  }
}

TEST(ModelStages, EvenAndExplicit) {
  const auto layers = [](std::string_view text, std::int64_t stage) {
    const LayerRange range = StageLayers(Layers(12), StagesPlan(text), stage);
    return std::pair{range.first, range.count};
  };
  using Range = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(layers("pp=3", 0), Range(0, 4));
  EXPECT_EQ(layers("pp=3", 2), Range(8, 4));
  EXPECT_EQ(layers("pp=3,split=5+4+3", 1), Range(5, 4));
  EXPECT_EQ(layers("pp=3,split=5+4+3", 2), Range(9, 3));
  EXPECT_EQ(layers("pp=2,vpp=2,split=1+2+3+6", 2), Range(3, 3)) << "entries are by stage, not by rank";
}

TEST(ModelStages, RanksCoverAllLayers) {
  for (const char* text : {"pp=3", "pp=2,vpp=3", "pp=3,split=5+4+3", "pp=2,vpp=2,split=1+2+3+6"}) {
    const ParallelPlan plan = StagesPlan(text);
    std::int64_t sum = 0;
    for (std::int64_t rank = 0; rank < plan.pp; ++rank) sum += RankLayers(Layers(12), plan, rank);
    EXPECT_EQ(sum, 12) << text;
  }
  EXPECT_EQ(RankLayers(Layers(12), StagesPlan("pp=2,vpp=2,split=1+2+3+6"), 0), 4);
  EXPECT_EQ(RankLayers(Layers(12), StagesPlan("pp=2,vpp=2,split=1+2+3+6"), 1), 8);
}

TEST(ModelStages, FullyRecomputedLayers) {
  EXPECT_EQ(FullyRecomputedLayers(StagesPlan("tp=1"), 4), 0);
  EXPECT_EQ(FullyRecomputedLayers(StagesPlan("recompute=selective"), 4), 0);
  EXPECT_EQ(FullyRecomputedLayers(StagesPlan("recompute=full"), 4), 4);
  EXPECT_EQ(FullyRecomputedLayers(StagesPlan("recompute=full:3"), 4), 3);
  EXPECT_EQ(FullyRecomputedLayers(StagesPlan("recompute=full:3"), 2), 2) << "all, where there are fewer";
}

TEST(MicrobatchCount, CountsOneDataParallelRank) {
  EXPECT_EQ(MicrobatchCount({.global_batch = 24, .seq_len = 64, .precision = {}}, StagesPlan("dp=2,mbs=3")),
            4);
}

}  // namespace
}  // namespace autocfg
