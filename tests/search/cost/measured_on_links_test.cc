// Tests a cluster with measured machines and described links.
#include "search/cost/op_times/measured_on_links.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/plan/parallel_plan.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

using ::testing::HasSubstr;

// Four machines of two CPUs.
ClusterSpec Described() {
  NodeGroup group;
  group.device.name = "cpu";
  group.nodes = 4;
  group.gpus_per_node = 2;
  group.intra_node_bytes_per_s = 8e9;
  group.inter_node_bytes_per_s = 1e9;
  group.intra_node_latency_s = 1e-6;
  group.inter_node_latency_s = 3e-5;
  group.device.efficiency.intra_node = 0.5;
  group.device.efficiency.inter_node = 0.25;
  return {.name = "four", .groups = {group}};
}

OpDesc Message(std::int64_t elements) {
  OpDesc op{.kind = OpKind::kSend};
  op.group = CommGroup::kPipeline;
  op.group_size = 2;
  op.dims = {elements};
  return op;
}

TEST(MeasuredOnLinks, NamesTheMissingFigure) {
  ASSERT_TRUE(LinksOf(Described()).ok());
  const auto without = [](auto&& change) {
    ClusterSpec cluster = Described();
    change(cluster.groups[0]);
    const auto times = MeasuredOnLinks::Create(OpTimes(), cluster);
    EXPECT_EQ(times.status(), LinksOf(cluster).status());
    return std::string(times.status().message());
  };
  EXPECT_THAT(without([](NodeGroup& g) { g.intra_node_bytes_per_s = 0; }),
              HasSubstr("intra_node_bytes_per_s"));
  EXPECT_THAT(without([](NodeGroup& g) { g.inter_node_bytes_per_s = 0; }),
              HasSubstr("inter_node_bytes_per_s"));
  EXPECT_THAT(without([](NodeGroup& g) { g.intra_node_latency_s.reset(); }),
              HasSubstr("intra_node_latency_s"));
  EXPECT_THAT(without([](NodeGroup& g) { g.inter_node_latency_s.reset(); }),
              HasSubstr("inter_node_latency_s"));
  EXPECT_THAT(without([](NodeGroup& g) { g.device.efficiency.intra_node = 0; }),
              HasSubstr("device.efficiency.intra_node is missing"));
  EXPECT_THAT(without([](NodeGroup& g) { g.device.efficiency.inter_node = 0; }),
              HasSubstr("device.efficiency.inter_node is missing"));
  ClusterSpec one = Described();
  one.groups[0].nodes = 1;
  one.groups[0].inter_node_bytes_per_s = 0;
  one.groups[0].inter_node_latency_s.reset();
  EXPECT_TRUE(LinksOf(one).ok()) << "links that it does not have play no part";
}

// 1e6 floats between neighbouring stages: within a machine at half of 8 GB/s, between machines at a quarter
// of 1 GB/s, each plus its latency.
TEST(MeasuredOnLinks, MessagesTakeTheirLinksTime) {
  const auto times = MeasuredOnLinks::Create(OpTimes(), Described());
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_NEAR((*times)->Seconds(Message(1'000'000), {{.pp = 2}}), 1e-6 + 4e6 / 4e9, 1e-9);
  EXPECT_NEAR((*times)->Seconds(Message(1'000'000), {{.tp = 2, .pp = 2}}), 3e-5 + 4e6 / 0.25e9, 1e-9);
}

// Sums of two ranks were measured on the machine. They count where the two share a machine.
TEST(MeasuredOnLinks, GroupsWithinAMachineTakeTheMeasuredTime) {
  const auto sum = [](CommGroup group, std::int32_t size) {
    return OpDesc{.kind = OpKind::kAllReduceSum, .group = group, .group_size = size, .dims = {1'000'000}};
  };
  const OpTimes measured({{sum(CommGroup::kTensor, 2), 0.7}});
  const auto times = MeasuredOnLinks::Create(measured, Described());
  const auto described = MeasuredOnLinks::Create(OpTimes(), Described());
  ASSERT_TRUE(times.ok()) << times.status();
  const ParallelPlan within{{.tp = 2, .dp = 4}}, between{{.tp = 1, .pp = 4, .dp = 2}};
  EXPECT_DOUBLE_EQ((*times)->Seconds(sum(CommGroup::kTensor, 2), within), 0.7);
  EXPECT_DOUBLE_EQ((*times)->Seconds(sum(CommGroup::kData, 2), between), 0.7) << "neighbours share a machine";
  // Every other rank: on two machines.
  const ParallelPlan across{{.tp = 2, .dp = 2}};
  EXPECT_DOUBLE_EQ((*times)->Seconds(sum(CommGroup::kData, 2), across),
                   (*described)->Seconds(sum(CommGroup::kData, 2), across));
  EXPECT_DOUBLE_EQ((*times)->Seconds(sum(CommGroup::kData, 4), within),
                   (*described)->Seconds(sum(CommGroup::kData, 4), within));
  EXPECT_LT((*times)->Seconds(sum(CommGroup::kData, 4), within), 0.7);
}

TEST(MeasuredOnLinks, ComputeTakesTheMeasuredTime) {
  OpDesc product;
  product.dims = {16, 16, 16};
  const auto times = MeasuredOnLinks::Create(OpTimes({{product, 0.25}}), Described());
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_DOUBLE_EQ((*times)->Seconds(product, {}), 0.25);
  OpDesc sum{.kind = OpKind::kAllReduceSum};
  sum.group = CommGroup::kTensor;
  sum.group_size = 1;
  sum.dims = {100};
  EXPECT_EQ((*times)->Seconds(sum, {}), 0) << "a group of one has nobody to talk to";
}

}  // namespace
}  // namespace autocfg
