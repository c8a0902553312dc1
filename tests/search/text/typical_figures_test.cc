// Tests which figures of a cluster are assumed, and the note about them.
#include "search/text/typical_figures.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TypicalFigures, GivenFiguresAreKept) {
  for (const std::string& name : DevicePresetNames()) {
    ClusterSpec cluster = PresetCluster(name + ":4x8").value();
    const ClusterSpec before = cluster;
    EXPECT_EQ(AssumeTypicalFigures(cluster), "") << name;
    EXPECT_EQ(cluster, before) << name;
  }
}

TEST(TypicalFigures, MissingFiguresComeFromThePreset) {
  const NodeGroup typical = PresetCluster("a100-80gb-sxm:4x8").value().groups.front();
  ClusterSpec cluster{.name = "mine", .groups = {typical}};
  cluster.groups[0].device.efficiency = {};
  cluster.groups[0].intra_node_latency_s.reset();
  cluster.groups[0].inter_node_latency_s.reset();
  EXPECT_THAT(AssumeTypicalFigures(cluster),
              AllOf(HasSubstr("efficiency.matmul 0.78"), HasSubstr("efficiency.op_overhead_s 4e-06"),
                    HasSubstr("inter_node_latency_s 5e-06")));
  EXPECT_EQ(cluster.groups[0], typical);
}

TEST(TypicalFigures, FillsLinksOnly) {
  const NodeGroup typical = PresetCluster("a100-80gb-sxm:4x8").value().groups.front();
  ClusterSpec cluster{.name = "mine", .groups = {typical}};
  cluster.groups[0].device.efficiency = {};
  cluster.groups[0].inter_node_latency_s.reset();
  EXPECT_THAT(
      AssumeTypicalLinkFigures(cluster),
      AllOf(HasSubstr("efficiency.intra_node 0.7"), HasSubstr("efficiency.inter_node 0.8"),
            HasSubstr("inter_node_latency_s 5e-06"), Not(HasSubstr("matmul")), Not(HasSubstr("op_"))));
  NodeGroup expected = typical;
  expected.device.efficiency = {};
  expected.device.efficiency.intra_node = typical.device.efficiency.intra_node;
  expected.device.efficiency.inter_node = typical.device.efficiency.inter_node;
  EXPECT_EQ(cluster.groups[0], expected) << "what computes is measured";
}

// GPU overhead reduces what fits, so a missing one gets a default; a given 0 is kept.
TEST(TypicalFigures, FillsAGpusOverhead) {
  ClusterSpec cluster = PresetCluster("h100-sxm:2x8").value();
  DeviceSpec& device = cluster.groups[0].device;
  device.overhead_bytes.reset();
  ClusterSpec links = cluster, cpus = cluster, given = cluster;
  EXPECT_THAT(AssumeTypicalFigures(cluster),
              AllOf(HasSubstr("a100-80gb-sxm are assumed"), HasSubstr("overhead_bytes 2147483648")));
  EXPECT_EQ(device.overhead_bytes, std::int64_t{1} << 31);
  EXPECT_EQ(DeviceOverheadBytes(cluster), std::int64_t{1} << 31);
  given.groups[0].device.overhead_bytes = 0;
  EXPECT_EQ(AssumeTypicalFigures(given), "");
  EXPECT_EQ(given.groups[0].device.overhead_bytes, 0);
  cpus.groups[0].device.kind = DeviceKind::kCpu;
  EXPECT_EQ(AssumeTypicalFigures(cpus), "");
  EXPECT_EQ(DeviceOverheadBytes(cpus), 0);
  EXPECT_EQ(AssumeTypicalLinkFigures(links), "");
  EXPECT_EQ(links.groups[0].device.overhead_bytes, std::nullopt);
  ClusterSpec small = cluster;  // never more than the device's memory
  small.groups[0].device.memory_bytes = 1 << 30;
  small.groups[0].device.overhead_bytes.reset();
  EXPECT_NE(AssumeTypicalFigures(small), "");
  EXPECT_TRUE(Validate(small).ok()) << Validate(small);
}

TEST(TypicalFigures, UnusedFiguresAreNotAssumed) {
  ClusterSpec one = PresetCluster("a100-80gb-sxm:1x1").value();
  one.groups[0].device.efficiency.intra_node = 0;
  one.groups[0].inter_node_latency_s.reset();
  EXPECT_EQ(AssumeTypicalFigures(one), "");
  ClusterSpec mine = PresetCluster("a100-80gb-sxm:1x2").value();
  mine.groups[0].device.efficiency.memory = 0;
  mine.groups[0].device.efficiency.matmul = 0.5;
  mine.groups[0].device.efficiency.matmul_k_half = 0;
  EXPECT_THAT(AssumeTypicalFigures(mine), AllOf(HasSubstr("efficiency.memory"), Not(HasSubstr("matmul"))));
  EXPECT_EQ(mine.groups[0].device.efficiency.matmul_k_half, 0) << "a rate without a knee is the caller's own";
  ClusterSpec local{.local = true, .groups = {NodeGroup{}}};
  EXPECT_EQ(AssumeTypicalFigures(local), "");
}

}  // namespace
}  // namespace autocfg
