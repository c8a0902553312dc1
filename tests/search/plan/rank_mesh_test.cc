// Tests ranks and coordinates: tensor fastest, then data, then pipeline; and meshes of other axes.
#include "search/plan/rank_mesh.h"

#include <algorithm>
#include <random>
#include <set>
#include <stdexcept>

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
  EXPECT_THAT(mesh.Group(7, Axis::kTensor | Axis::kData), ElementsAre(4, 5, 6, 7));
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
  const RankMesh mesh(Plan(2, 4, 3));
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    EXPECT_EQ(mesh.RankAt({{Axis::kTensor, mesh.Coordinate(rank, Axis::kTensor)},
                           {Axis::kData, mesh.Coordinate(rank, Axis::kData)},
                           {Axis::kPipeline, mesh.Coordinate(rank, Axis::kPipeline)}}),
              rank);
  }
  EXPECT_EQ(mesh.RankAt({{Axis::kTensor, 1}, {Axis::kData, 2}, {Axis::kPipeline, 3}}), 23);
  EXPECT_EQ(mesh.RankAt({{Axis::kPipeline, 2}}), 12);
}

// A copy of the table with one more axis, at any place.
constexpr Axis kAdded = static_cast<Axis>(kAxisCount);

std::vector<MeshAxis> RandomAxes(std::mt19937& random) {
  std::vector<MeshAxis> axes;
  for (const AxisRow& row : kAxes)
    axes.push_back({row.axis, row.splits, static_cast<std::int64_t>(1 + random() % 4)});
  const MeshAxis added{kAdded, Splits::kBatch, static_cast<std::int64_t>(1 + random() % 4)};
  axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(random() % (axes.size() + 1)), added);
  return axes;
}

// Ranks form a group if their coordinates on all other axes agree.
TEST(RankMesh, AnAxisMoreIsOneMoreEntry) {
  std::mt19937 random(1);
  int equally_apart = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<MeshAxis> axes = RandomAxes(random);
    const RankMesh mesh(axes);
    std::set<std::vector<std::int64_t>> seen;
    for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
      std::vector<std::int64_t> coordinates;
      std::int64_t expected = 0, stride = 1;
      for (const MeshAxis& axis : axes) {
        coordinates.push_back(mesh.Coordinate(rank, axis.axis));
        EXPECT_LT(coordinates.back(), axis.size);
        expected += coordinates.back() * stride;
        stride *= axis.size;
      }
      EXPECT_EQ(expected, rank);
      seen.insert(coordinates);
    }
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), mesh.size());

    AxisSet spanned;
    for (const MeshAxis& axis : axes) {
      if (random() % 2 == 0) spanned = spanned | axis.axis;
    }
    const std::int64_t rank = static_cast<std::int64_t>(random()) % mesh.size();
    std::vector<std::int64_t> members;
    for (std::int64_t other = 0; other < mesh.size(); ++other) {
      const bool together = std::all_of(axes.begin(), axes.end(), [&](const MeshAxis& axis) {
        return spanned.Holds(axis.axis) ||
               mesh.Coordinate(other, axis.axis) == mesh.Coordinate(rank, axis.axis);
      });
      if (together) members.push_back(other);
    }
    EXPECT_EQ(mesh.Group(rank, spanned), members);
    const auto at = std::find(members.begin(), members.end(), rank);
    EXPECT_EQ(mesh.Position(rank, spanned), at - members.begin());
    std::set<std::int64_t> distances;
    for (std::size_t m = 1; m < members.size(); ++m) distances.insert(members[m] - members[m - 1]);
    if (distances.size() > 1) {
      EXPECT_THROW(mesh.StrideOf(spanned), std::logic_error);
      continue;
    }
    ++equally_apart;
    EXPECT_EQ(mesh.StrideOf(spanned).size, static_cast<std::int64_t>(members.size()));
    EXPECT_EQ(mesh.StrideOf(spanned).apart, distances.empty() ? 1 : *distances.begin());
  }
  EXPECT_GT(equally_apart, 100);
}

// The ranks of a mixture's experts, whose axes fold over those of the others: the pipelines are the same
// (Megatron-Core's parallel_state requires it), and other groups differ.
TEST(RankMesh, SecondMeshOverTheSameRanks) {
  constexpr Axis kExpert = static_cast<Axis>(kAxisCount);
  const RankMesh dense(Plan(2, 3, 4));
  const RankMesh experts(std::vector<MeshAxis>{{Axis::kTensor, Splits::kLayer, 1},
                                               {kExpert, Splits::kLayer, 4},
                                               {Axis::kData, Splits::kBatch, 2},
                                               {Axis::kPipeline, Splits::kDepth, 3}});
  ASSERT_EQ(dense.size(), experts.size());
  for (std::int64_t rank = 0; rank < dense.size(); ++rank)
    EXPECT_EQ(dense.Group(rank, Axis::kPipeline), experts.Group(rank, Axis::kPipeline));
  EXPECT_THAT(experts.Group(5, kExpert), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(experts.Group(5, Axis::kData), ElementsAre(1, 5));
}

// Two axes split the batch. Shards are consecutive among the ranks of both.
TEST(RankMesh, GroupsSpanAllAxesThatSplitTheSame) {
  const RankMesh mesh(std::vector<MeshAxis>{{Axis::kTensor, Splits::kLayer, 2},
                                            {Axis::kData, Splits::kBatch, 2},
                                            {kAdded, Splits::kBatch, 4},
                                            {Axis::kPipeline, Splits::kDepth, 3}},
                      4);
  EXPECT_THAT(mesh.Group(5, CommGroup::kData), ElementsAre(1, 3, 5, 7, 9, 11, 13, 15));
  EXPECT_THAT(mesh.Group(5, CommGroup::kShard), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(mesh.Group(5, CommGroup::kReplica), ElementsAre(5, 13));
  EXPECT_THAT(mesh.Group(5, CommGroup::kEmbedding), ElementsAre(5, 37));
  EXPECT_EQ(mesh.Group(5, CommGroup::kWorld).size(), 48u);
  const auto expect_stride = [&](CommGroup group, std::int64_t size, std::int64_t apart) {
    EXPECT_EQ(mesh.StrideOf(group).size, size) << Name(group);
    EXPECT_EQ(mesh.StrideOf(group).apart, apart) << Name(group);
  };
  expect_stride(CommGroup::kData, 8, 2);
  expect_stride(CommGroup::kShard, 4, 2);
  expect_stride(CommGroup::kReplica, 2, 8);
  expect_stride(CommGroup::kEmbedding, 2, 32);
  expect_stride(CommGroup::kWorld, 48, 1);
}

// Of 4 ranks that split layers, two in a row hold the same key-value heads.
TEST(RankMesh, RanksThatShareKeyValueHeadsAreInARow) {
  const RankMesh mesh(ParallelPlan{{.tp = 4, .pp = 2, .dp = 2}}, 2);
  EXPECT_THAT(mesh.Group(4, CommGroup::kKvReplica), ElementsAre(4, 5));
  EXPECT_THAT(mesh.Group(15, CommGroup::kKvReplica), ElementsAre(14, 15));
  EXPECT_THAT(mesh.Group(4, CommGroup::kTensor), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(mesh.StrideOf(CommGroup::kKvReplica).size, 2);
  EXPECT_EQ(mesh.StrideOf(CommGroup::kKvReplica).apart, 1);
  EXPECT_THAT(RankMesh(ParallelPlan{{.tp = 4}}).Group(2, CommGroup::kKvReplica), ElementsAre(2));
}

TEST(Mesh, CountsRanksBySetsOfAxes) {
  constexpr MeshOptions mesh{.tp = 2, .pp = 3, .dp = 5};
  static_assert(RankCount(mesh) == 30);
  static_assert(SizeOf(mesh, Axis::kTensor | Axis::kPipeline) == 6);
  static_assert(BatchRanks(mesh) == 5);
  static_assert(SplitsLayers(mesh) && SplitsDepth(mesh) && !SplitsLayers({.dp = 4}));
  static_assert(HasMoreRanks(mesh, 29) && !HasMoreRanks(mesh, 30));
  static_assert(HasMoreRanks({.tp = std::int64_t{1} << 40, .pp = std::int64_t{1} << 40}, 1 << 20));
  static_assert(WithDataRanks({.tp = 2, .pp = 3}, 24) == MeshOptions{.tp = 2, .pp = 3, .dp = 4});
  static_assert(!WithDataRanks({.tp = 2, .pp = 3}, 16) && !WithDataRanks({.tp = 2, .pp = 3}, 4));
  static_assert(FindAxis("pp")->axis == Axis::kPipeline && FindAxis("vpp") == nullptr);
}

}  // namespace
}  // namespace autocfg
