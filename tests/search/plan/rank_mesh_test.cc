// Tests ranks and coordinates: tensor fastest, then data, then pipeline.
#include "search/plan/rank_mesh.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg {
namespace {

using ::testing::ElementsAre;

ParallelPlan Plan(std::int64_t tp, std::int64_t pp, std::int64_t dp) {
  ParallelPlan plan;
  plan.tp = tp;
  plan.pp = pp;
  plan.dp = dp;
  return plan;
}

TEST(RankMesh, SpelledOut) {
  const RankMesh mesh(Plan(2, 3, 2));
  EXPECT_EQ(mesh.size(), 12);
  EXPECT_EQ(mesh.size(Axis::kPipeline), 3);
  EXPECT_EQ(mesh.Coordinate(7, Axis::kTensor), 1);
  EXPECT_EQ(mesh.Coordinate(7, Axis::kData), 1);
  EXPECT_EQ(mesh.Coordinate(7, Axis::kPipeline), 1);
  EXPECT_THAT(mesh.Group(7, CommGroup::kNone), ElementsAre(7));
  EXPECT_THAT(mesh.Group(7, CommGroup::kTensor), ElementsAre(6, 7));
  EXPECT_THAT(mesh.Group(7, CommGroup::kData), ElementsAre(5, 7));
  EXPECT_THAT(mesh.Group(7, CommGroup::kPipeline), ElementsAre(3, 7, 11));
  EXPECT_THAT(mesh.Group(7, CommGroup::kEmbedding), ElementsAre(7)) << "a stage in the middle";
  EXPECT_THAT(mesh.Group(3, CommGroup::kEmbedding), ElementsAre(3, 11));
  EXPECT_THAT(mesh.Group(11, CommGroup::kEmbedding), ElementsAre(3, 11));
  EXPECT_THAT(mesh.Group(7, CommGroup::kWorld), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(mesh.Group(7, {Axis::kTensor, Axis::kData}), ElementsAre(4, 5, 6, 7));
}

TEST(RankMesh, OneStageHasNoEmbeddingPeer) {
  const RankMesh mesh(Plan(2, 1, 2));
  EXPECT_THAT(mesh.Group(3, CommGroup::kEmbedding), ElementsAre(3));
}

// For all sizes, groups partition the world and contain the rank they are computed for.
TEST(RankMesh, GroupsPartitionTheWorld) {
  for (std::int64_t tp = 1; tp <= 3; ++tp) {
    for (std::int64_t pp = 1; pp <= 4; ++pp) {
      for (std::int64_t dp = 1; dp <= 3; ++dp) {
        const RankMesh mesh(Plan(tp, pp, dp));
        for (const CommGroup group : {CommGroup::kTensor, CommGroup::kData, CommGroup::kPipeline,
                                      CommGroup::kEmbedding, CommGroup::kWorld}) {
          std::set<std::vector<std::int64_t>> groups;
          for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
            const auto ranks = mesh.Group(rank, group);
            EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end()));
            EXPECT_THAT(ranks, ::testing::Contains(rank));
            groups.insert(ranks);
          }
          std::set<std::int64_t> all;
          std::size_t members = 0;
          for (const auto& ranks : groups) {
            members += ranks.size();
            all.insert(ranks.begin(), ranks.end());
          }
          EXPECT_EQ(members, all.size());
          EXPECT_EQ(static_cast<std::int64_t>(all.size()), mesh.size());
        }
      }
    }
  }
}

TEST(RankMesh, FindsTheRankAtItsCoordinates) {
  ParallelPlan plan;
  plan.tp = 2;
  plan.dp = 3;
  plan.pp = 4;
  const RankMesh mesh(plan);
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    EXPECT_EQ(mesh.RankAt({mesh.Coordinate(rank, Axis::kTensor), mesh.Coordinate(rank, Axis::kData),
                           mesh.Coordinate(rank, Axis::kPipeline)}),
              rank);
  }
  EXPECT_EQ(mesh.RankAt({1, 2, 3}), 23);
}

}  // namespace
}  // namespace autocfg
