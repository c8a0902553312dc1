#include "search/question/defaults.h"

#include <string>
#include <vector>

#include "base/subject.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Resolved {
  std::string precision;
  std::vector<std::string> notes;
};

Resolved Resolve(ClusterSpec cluster, DeviceTimes times, const std::string& precision = "") {
  Resolved resolved;
  const auto found = ResolveDefaults("", precision, times, cluster, resolved.notes);
  EXPECT_TRUE(found.ok()) << found.status();
  if (found.ok()) resolved.precision = PrecisionText(*found);
  return resolved;
}

ClusterSpec OnCpus() {
  ClusterSpec cluster = *PresetCluster("a100-80gb-sxm");
  cluster.groups.front().device.kind = DeviceKind::kCpu;
  return cluster;
}

TEST(Defaults, PrecisionFollowsTheDeviceAndWhetherItIsMeasured) {
  const ClusterSpec a100 = *PresetCluster("a100-80gb-sxm"), v100 = *PresetCluster("v100-32gb-sxm");
  for (const DeviceTimes times : {DeviceTimes::kMeasured, DeviceTimes::kPredicted}) {
    EXPECT_EQ(Resolve(a100, times).precision, "bf16");
    EXPECT_EQ(Resolve(OnCpus(), times).precision, "fp32");
    EXPECT_EQ(Resolve(v100, times, "fp8").precision, "fp8") << "a named one is taken as it is";
  }
  EXPECT_EQ(Resolve(v100, DeviceTimes::kPredicted).precision, "fp16");
  EXPECT_THAT(Resolve(v100, DeviceTimes::kPredicted).notes,
              ElementsAre(HasSubstr("fp16, since v100-32gb-sxm has no bf16")));
  EXPECT_EQ(Resolve(v100, DeviceTimes::kMeasured).precision, "bf16") << "the engine has no fp16";
  EXPECT_THAT(Resolve(v100, DeviceTimes::kPredicted, "fp16").notes, IsEmpty());
}

TEST(Defaults, OnlyLinksOfMeasuredDevicesAreAssumed) {
  ClusterSpec cluster = *PresetCluster("a100-80gb-sxm:2x8");
  cluster.groups.front().device.efficiency = {};
  ClusterSpec measured = cluster, predicted = cluster;
  std::vector<std::string> notes;
  ASSERT_TRUE(ResolveDefaults("", "", DeviceTimes::kMeasured, measured, notes).ok());
  EXPECT_EQ(measured.groups.front().device.efficiency.matmul, 0);
  EXPECT_GT(measured.groups.front().device.efficiency.inter_node, 0);
  ASSERT_TRUE(ResolveDefaults("", "", DeviceTimes::kPredicted, predicted, notes).ok());
  EXPECT_GT(predicted.groups.front().device.efficiency.matmul, 0);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("inter_node"), HasSubstr("matmul")));
}

TEST(Defaults, AnUnknownNameIsAnErrorAboutItsOption) {
  ClusterSpec cluster = *PresetCluster("a100-80gb-sxm");
  std::vector<std::string> notes;
  const auto precision = ResolveDefaults("", "fp4", DeviceTimes::kPredicted, cluster, notes).status();
  EXPECT_EQ(base::OptionOf(precision), "precision");
  EXPECT_THAT(std::string(precision.message()), HasSubstr("unknown precision 'fp4'"));
  const auto engine = ResolveDefaults("megatrom", "", DeviceTimes::kPredicted, cluster, notes).status();
  EXPECT_EQ(base::OptionOf(engine), "engine");
  ASSERT_TRUE(ResolveDefaults("megatron", "", DeviceTimes::kPredicted, cluster, notes).ok());
  EXPECT_EQ(cluster.engine.name, "megatron");
}

}  // namespace
}  // namespace autocfg
