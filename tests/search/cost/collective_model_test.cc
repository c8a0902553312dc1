// Checks each algorithm of a collective against hand-worked cases, against the published counts of steps and
// bytes, and against a simulation of blocks that pass through trees; and the choice of the fastest one.
#include "search/cost/op_times/collective_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace autocfg {
namespace {

// 100 GB/s and 1 us within a node, 10 GB/s and 10 us between nodes.
constexpr Links kRoundLinks{.intra_bytes_per_s = 1e11,
                            .inter_bytes_per_s = 1e10,
                            .intra_latency_s = 1e-6,
                            .inter_latency_s = 1e-5,
                            .intra_message_bytes_per_s = 1e11,
                            .inter_message_bytes_per_s = 1e10};

GroupSpan Even(std::int64_t nodes, std::int64_t in_node) {
  return {.size = nodes * in_node, .in_node = in_node, .nodes = nodes};
}

double Seconds(OpKind kind, double bytes, const GroupSpan& span, const Links& links = kRoundLinks) {
  return CommunicationSeconds({.kind = kind,
                               .dtype = DType::kBF16,
                               .group = CommGroup::kData,
                               .group_size = static_cast<std::int32_t>(span.size),
                               .dims = {static_cast<std::int64_t>(bytes / 2)}},
                              span, links);
}

double AllReduce(double bytes, const GroupSpan& span, const Links& links = kRoundLinks) {
  return Seconds(OpKind::kAllReduceSum, bytes, span, links);
}

// Two nodes of four ranks and 80 MB. A ring uses four interfaces: 40 GB/s.
TEST(CollectiveModel, ByHand) {
  const double bytes = 8e7;
  const GroupSpan span = Even(2, 4);
  // 7/8 of 80 MB at 40 GB/s are 1.75 ms. 7 steps: 6 within nodes, 1 between them.
  EXPECT_DOUBLE_EQ(RingGatherSeconds(bytes, span, kRoundLinks), 1.75e-3 + 16e-6);
  EXPECT_DOUBLE_EQ(RingAllReduceSeconds(bytes, span, kRoundLinks), 3.5e-3 + 32e-6);
  // Up and down: 2 ms at 40 GB/s, and 3 steps of the chain and 2 between nodes, 23 us.
  EXPECT_NEAR(TwoTreeAllReduceSeconds(bytes, span, kRoundLinks),
              2 * std::pow(std::sqrt(2e-3) + std::sqrt(23e-6), 2), 1e-12);
  // Within a node 2 x 3/4 of 80 MB at 100 GB/s, between two nodes 2 x 1/2 of 20 MB at 10 GB/s.
  EXPECT_DOUBLE_EQ(HierarchicalAllReduceSeconds(bytes, span, kRoundLinks), 1.2e-3 + 6e-6 + 2e-3 + 2e-5);
  EXPECT_DOUBLE_EQ(HierarchicalGatherSeconds(bytes, span, kRoundLinks), 0.6e-3 + 3e-6 + 1e-3 + 1e-5);
  // The fastest: hierarchical with 3.226 ms, and with 1.613 ms.
  EXPECT_DOUBLE_EQ(AllReduce(bytes, span), 3.226e-3);
  EXPECT_DOUBLE_EQ(Seconds(OpKind::kAllGather, bytes, span), 1.613e-3);
  EXPECT_DOUBLE_EQ(Seconds(OpKind::kReduceScatter, bytes, span), 1.613e-3);
}

// Takes every step of a ring: in each, every rank passes a block of 1/N to the next, and the slowest link
// counts. A ring of all members on `nodes` nodes with one interface each crosses between nodes `nodes` times.
TEST(CollectiveModel, RingsAsStepByStep) {
  for (const std::int64_t nodes : {1, 2, 5, 16}) {
    for (const std::int64_t in_node : {1, 2, 8}) {
      const GroupSpan span = Even(nodes, in_node);
      if (span.size == 1) continue;
      const double bytes = 1e8;
      const double rate =
          nodes > 1 ? std::min(static_cast<double>(in_node) * 1e10, in_node > 1 ? 1e11 : 1e10) : 1e11;
      double seconds = 0;
      for (std::int64_t step = 1; step < span.size; ++step) {
        // A block that goes all the way from the first rank of a node to the last one of the ring.
        const bool crosses = step % in_node == 0;
        seconds += bytes / static_cast<double>(span.size) / rate + (crosses ? 1e-5 : 1e-6);
      }
      EXPECT_NEAR(RingGatherSeconds(bytes, span, kRoundLinks), seconds, 1e-12) << nodes << "x" << in_node;
    }
  }
}

// The best of all numbers of blocks through a pipeline of `steps` steps (Sanders et al., section 2): the
// first block takes them all, each other one comes a step later.
TEST(CollectiveModel, TreesPassBlocksOfTheBestSize) {
  const Links links{.inter_bytes_per_s = 1e10, .inter_latency_s = 1e-5};
  for (const std::int64_t nodes : {2, 4, 16, 64}) {
    const double steps = 2 * std::log2(static_cast<double>(nodes));
    for (const double bytes : {1e6, 1e8, 1e9}) {
      double best = std::numeric_limits<double>::infinity();
      for (double blocks = 1; blocks < 20'000; ++blocks)
        best = std::min(best, (steps + blocks) * (1e-5 + bytes / blocks / 1e10));
      const double ours = TwoTreeAllReduceSeconds(bytes, Even(nodes, 1), links) / 2;
      EXPECT_LE(ours, best * (1 + 1e-9)) << nodes << " nodes, " << bytes << " bytes";
      EXPECT_GT(ours, best * 0.98) << nodes << " nodes, " << bytes << " bytes: no block is a fraction";
    }
  }
}

// Thakur et al.: a ring for large payloads takes 2(p-1) a + 2(p-1)/p bytes / rate. Nothing that moves a
// payload over a network of equal links takes fewer bytes (Patarasuk and Yuan).
TEST(CollectiveModel, PublishedLimits) {
  for (const std::int64_t nodes : {2, 8, 64, 512}) {
    const GroupSpan span = Even(nodes, 1);
    const auto p = static_cast<double>(nodes);
    const double large = 1e13;
    EXPECT_NEAR(AllReduce(large, span) / (2 * (p - 1) / p * large / 1e10), 1, 1e-4) << nodes;
    EXPECT_GE(AllReduce(large, span), 2 * (p - 1) / p * large / 1e10) << nodes;
    // A small one takes the trees' latency: four times log2(p) steps, at most a ring's 2(p-1).
    EXPECT_NEAR(AllReduce(2, span), std::min(4 * std::log2(p), 2 * (p - 1)) * 1e-5, 1e-6) << nodes;
    EXPECT_NEAR(Seconds(OpKind::kAllGather, 2, span), (p - 1) * 1e-5, 1e-6) << nodes << ": rings alone";
  }
  // Latency grows with the members within a node, which no algorithm of the library avoids.
  for (const std::int64_t members : {2, 4, 8, 16})
    EXPECT_NEAR(AllReduce(2, Even(1, members)), 2 * static_cast<double>(members - 1) * 1e-6, 1e-9);
}

TEST(CollectiveModel, HierarchicalIsARingWithinOneNodeAndBetweenNodesOfOneMember) {
  for (const double bytes : {2.0, 1e6, 1e9}) {
    for (const std::int64_t members : {2, 3, 8, 72}) {
      const GroupSpan node = Even(1, members), rail = Even(members, 1);
      EXPECT_DOUBLE_EQ(HierarchicalAllReduceSeconds(bytes, node, kRoundLinks),
                       RingAllReduceSeconds(bytes, node, kRoundLinks));
      EXPECT_DOUBLE_EQ(AllReduce(bytes, node), RingAllReduceSeconds(bytes, node, kRoundLinks));
      EXPECT_DOUBLE_EQ(HierarchicalGatherSeconds(bytes, node, kRoundLinks),
                       RingGatherSeconds(bytes, node, kRoundLinks));
      EXPECT_DOUBLE_EQ(HierarchicalGatherSeconds(bytes, rail, kRoundLinks),
                       RingGatherSeconds(bytes, rail, kRoundLinks));
      EXPECT_DOUBLE_EQ(HierarchicalAllReduceSeconds(bytes, rail, kRoundLinks),
                       std::min(RingAllReduceSeconds(bytes, rail, kRoundLinks),
                                TwoTreeAllReduceSeconds(bytes, rail, kRoundLinks)));
    }
  }
}

// A group with five members on one node and one on the other has no rails.
TEST(CollectiveModel, UnevenGroupsTakeRingsOrTrees) {
  const GroupSpan uneven{.size = 6, .in_node = 1, .nodes = 2};
  EXPECT_FALSE(IsEven(uneven));
  EXPECT_TRUE(IsEven(Even(2, 3)));
  for (const double bytes : {2.0, 1e6, 1e9}) {
    EXPECT_EQ(AllReduce(bytes, uneven), std::min(RingAllReduceSeconds(bytes, uneven, kRoundLinks),
                                                 TwoTreeAllReduceSeconds(bytes, uneven, kRoundLinks)));
    EXPECT_EQ(Seconds(OpKind::kAllGather, bytes, uneven), RingGatherSeconds(bytes, uneven, kRoundLinks));
  }
}

// Eight data groups share a node's eight interfaces, one each; so all of them together are as fast as one.
TEST(CollectiveModel, GroupsOfOneNodeShareNoInterface) {
  const double bytes = 1e9;
  const double alone = AllReduce(bytes, Even(4, 1));
  EXPECT_NEAR(alone, 2 * 0.75 * bytes / 1e10, 1e-4);
  // A group of all ranks moves eight times as much in little more time.
  EXPECT_NEAR(AllReduce(8 * bytes, Even(4, 8)), 2 * 31.0 / 32 * bytes / 1e10, 1e-3);
}

TEST(CollectiveModel, NeverLessForMoreBytesOrSlowerLinks) {
  std::mt19937 random(7);
  const auto log_uniform = [&](double least, double most) {
    return std::exp(std::uniform_real_distribution<double>(std::log(least), std::log(most))(random));
  };
  int hierarchical = 0, trees = 0, rings = 0;
  for (int run = 0; run < 20'000; ++run) {
    const GroupSpan span =
        Even(static_cast<std::int64_t>(log_uniform(1, 600)), static_cast<std::int64_t>(log_uniform(1, 73)));
    if (span.size == 1) continue;
    const Links links{.intra_bytes_per_s = log_uniform(1e9, 1e12),
                      .inter_bytes_per_s = log_uniform(1e9, 1e12),
                      .intra_latency_s = log_uniform(1e-7, 1e-4),
                      .inter_latency_s = log_uniform(1e-7, 1e-4),
                      .intra_message_bytes_per_s = 1e11,
                      .inter_message_bytes_per_s = 1e10};
    const double bytes = 2 * std::round(log_uniform(1, 1e9)), factor = log_uniform(1, 10);
    for (const OpKind kind : {OpKind::kAllReduceSum, OpKind::kAllGather, OpKind::kReduceScatter}) {
      const double seconds = Seconds(kind, bytes, span, links);
      ASSERT_TRUE(std::isfinite(seconds) && seconds > 0);
      EXPECT_LE(seconds, Seconds(kind, 2 * std::ceil(bytes * factor / 2), span, links));
      for (double Links::*figure : {&Links::intra_bytes_per_s, &Links::inter_bytes_per_s}) {
        Links slower = links;
        slower.*figure /= factor;
        EXPECT_LE(seconds, Seconds(kind, bytes, span, slower) * (1 + 1e-12));
      }
      for (double Links::*figure : {&Links::intra_latency_s, &Links::inter_latency_s}) {
        Links slower = links;
        slower.*figure *= factor;
        EXPECT_LE(seconds, Seconds(kind, bytes, span, slower) * (1 + 1e-12));
      }
    }
    const double all_reduce = AllReduce(bytes, span, links);
    if (span.nodes == 1 || span.in_node == 1) continue;
    EXPECT_LE(all_reduce, RingAllReduceSeconds(bytes, span, links));
    EXPECT_LE(all_reduce, TwoTreeAllReduceSeconds(bytes, span, links));
    EXPECT_LE(all_reduce, HierarchicalAllReduceSeconds(bytes, span, links));
    rings += all_reduce == RingAllReduceSeconds(bytes, span, links);
    trees += all_reduce == TwoTreeAllReduceSeconds(bytes, span, links);
    hierarchical += all_reduce == HierarchicalAllReduceSeconds(bytes, span, links);
  }
  EXPECT_GT(std::min({rings, trees, hierarchical}), 200) << "each is the fastest somewhere";
}

}  // namespace
}  // namespace autocfg
