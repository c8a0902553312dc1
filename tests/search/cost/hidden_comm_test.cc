// Predicted hidden communication where no paced run confirms it (tests/trainer/breakdown_test.cc): on CPUs,
// under engines that hide more, and where collectives take from computes.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/fnv1a.h"
#include "search/blocks/layer.h"
#include "search/cost/cost_model.h"
#include "search/plan/plan_text.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::SmallGpt;

// Computes take between 1 us and 1 ms, another time for every op; communication takes time by its elements,
// so that its sum does not depend on how it is cut.
class NamedTimes final : public OpTimeModel {
 public:
  explicit NamedTimes(double communication) : communication_(communication) {}
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    if (op.group != CommGroup::kNone) return 1e-7 * communication_ * static_cast<double>(op.dims[0]);
    return 1e-6 * static_cast<double>(1 + (base::Fnv1a(ToString(op)) >> 20) % 1000);
  }

 private:
  const double communication_;
};

constexpr std::int64_t kLayers = 4, kMicrobatches = 8;

ClusterSpec Gpus(const ParallelPlan& plan, double contention) {
  ClusterSpec cluster = LocalRanks(RankCount(plan));
  cluster.groups.front().device.kind = DeviceKind::kCuda;
  cluster.groups.front().device.efficiency.overlap_contention = contention;
  return cluster;
}

class HiddenComm : public testing::Test {
 protected:
  CostModel Costs(const ParallelPlan& plan, const ClusterSpec& cluster, double communication = 1) const {
    return CostModel({model_, Fp32(kMicrobatches * plan.dp, 8), cluster},
                     std::make_shared<NamedTimes>(communication));
  }
  const ModelSpec model_ = SmallGpt(kLayers, 16, 4, 61);
};

TEST_F(HiddenComm, OnCpusIsNothing) {
  for (const char* text : {"tp=2,mbs=1,tp_overlap=4", "dp=2,mbs=1,zero=3,grad_overlap=1,param_overlap=1",
                           "dp=2,mbs=1,zero=1,grad_overlap=1,param_overlap=1"}) {
    const ParallelPlan plan = *ParsePlanText(text);
    EXPECT_EQ(Costs(plan, LocalRanks(2)).HiddenComm(plan), 0) << text;
  }
}

TEST_F(HiddenComm, CountsTheGathersOfABackwardThatAnEngineHides) {
  const ParallelPlan plan = *ParsePlanText("tp=2,mbs=1,sp=1");
  ClusterSpec cluster = Gpus(plan, 0.5);
  EXPECT_EQ(Costs(plan, cluster).HiddenComm(plan), 0);
  cluster.engine.hides_backward_gathers = true;
  double gathers_s = 0;
  for (const OpDesc& op : LayerBackwardOps({model_, Fp32(kMicrobatches, 8), plan}, true))
    gathers_s += op.kind == OpKind::kAllGather ? NamedTimes(1).Seconds(op, plan) : 0;
  ASSERT_GT(gathers_s, 0);
  EXPECT_DOUBLE_EQ(Costs(plan, cluster).HiddenComm(plan), kMicrobatches * kLayers * gathers_s);
}

TEST_F(HiddenComm, CountsTheChunksThatAnEngineRepeats) {
  const ParallelPlan plan = *ParsePlanText("tp=2,mbs=1,recompute=full,tp_overlap=2");
  ClusterSpec cluster = Gpus(plan, 0);
  const double ours_s = Costs(plan, cluster).HiddenComm(plan);
  cluster.engine.recomputes_whole_layers = true;
  EXPECT_GT(Costs(plan, cluster).HiddenComm(plan), ours_s) << "the last product of a layer is repeated too";
}

// Zeroing and sums of gradients are not slowed by the collectives beside them.
TEST_F(HiddenComm, IsNotMoreThanAllCommunication) {
  for (const std::string text :
       {"dp=2,mbs=1", "dp=2,mbs=1,zero=1", "dp=2,mbs=1,zero=2", "dp=2,mbs=1,zero=3"}) {
    ParallelPlan plan = *ParsePlanText(text);
    for (const double communication : {0.01, 1.0, 20.0}) {
      for (const double contention : {0.0, 0.6, 1.0}) {
        SCOPED_TRACE(testing::Message() << text << " " << communication << " " << contention);
        ParallelPlan overlaps = plan;
        overlaps.grad_overlap = true;
        overlaps.param_overlap = plan.zero_stage > 0;
        const ClusterSpec cluster = Gpus(plan, contention);
        const double all_s = Costs(plan, cluster, communication).Predict(plan).breakdown.dp_comm;
        const double hidden_s = Costs(plan, cluster, communication).HiddenComm(overlaps);
        EXPECT_GT(hidden_s, 0);
        EXPECT_LE(hidden_s, all_s * (1 + 1e-9));
      }
    }
  }
}

}  // namespace
}  // namespace autocfg
