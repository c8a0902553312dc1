// One test suite for every OpTimeModel.
#include <algorithm>
#include <cctype>
#include <vector>

#include "search/cost/op_times/cluster_op_times.h"
#include "search/cost/op_times/measured_on_links.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/cost/op_times/op_times.h"
#include "search/text/cluster_json.h"
#include "tests/conformance/op_time_model_suite.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

INSTANTIATE_TEST_SUITE_P(Nominal, OpTimeModelSuite,
                         ::testing::Values(OpTimeModelCase{
                             "nominal", [] { return std::make_shared<const NominalTimes>(); }}),
                         OpTimeModelCaseName);

// Returns a case for each described device, in nodes of eight.
std::vector<OpTimeModelCase> Clusters() {
  std::vector<OpTimeModelCase> cases;
  for (const std::string& device : DevicePresetNames()) {
    std::string name = device;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    cases.push_back({name, [device] {
                       auto times =
                           ClusterOpTimes::Create(*PresetCluster(device + ":64x8"), *ParsePrecision("fp16"));
                       EXPECT_TRUE(times.ok()) << times.status();
                       return *std::move(times);
                     }});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cluster, OpTimeModelSuite, ::testing::ValuesIn(Clusters()), OpTimeModelCaseName);

// Returns measured times as of a calibration for plans of a small model: the kinds of op in a step, in some
// sizes.
OpTimes Measured() {
  std::vector<OpDesc> ops;
  for (const ParallelPlan& plan :
       {ParallelPlan{{.tp = 2, .pp = 2, .dp = 2}}, ParallelPlan{{}, {.micro_batch = 4}},
        ParallelPlan{{.tp = 4}, {.recompute = Recompute::kFull}},
        ParallelPlan{{.tp = 8}, {.micro_batch = 2}}}) {
    const auto of_plan = test::AllOps(test::SmallGpt(), test::Fp32(16, 64), plan);
    ops.insert(ops.end(), of_plan.begin(), of_plan.end());
  }
  return test::SyntheticDevice().Measure(ops);
}

ClusterSpec Machines() {
  ClusterSpec cluster = test::LocalRanks(8);
  cluster.local = false;
  NodeGroup& group = cluster.groups[0];
  group.nodes = 64;
  group.intra_node_bytes_per_s = 8e9;
  group.inter_node_bytes_per_s = 1e9;
  group.intra_node_latency_s = 1e-6;
  group.inter_node_latency_s = 3e-5;
  group.device.efficiency.intra_node = 0.5;
  group.device.efficiency.inter_node = 0.25;
  return cluster;
}

std::vector<OpTimeModelCase> MeasuredCases() {
  return {{"measured", [] { return std::make_shared<const OpTimes>(Measured()); }},
          {"measured_on_links", [] {
             auto times = MeasuredOnLinks::Create(Measured(), Machines());
             EXPECT_TRUE(times.ok()) << times.status();
             return *std::move(times);
           }}};
}

INSTANTIATE_TEST_SUITE_P(Measured, OpTimeModelSuite, ::testing::ValuesIn(MeasuredCases()),
                         OpTimeModelCaseName);

}  // namespace
}  // namespace autocfg
