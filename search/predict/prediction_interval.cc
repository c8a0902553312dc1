#include "search/predict/prediction_interval.h"

#include <cmath>

#include "search/plan/rank_mesh.h"

namespace autocfg {

bool SetUncalibratedInterval(Prediction& prediction, CostModel& costs, const ParallelPlan& plan) {
  prediction.step_time_low_s = prediction.step_time_s * (1 - kUncalibratedBelow);
  prediction.step_time_high_s = prediction.step_time_s * (1 + kUncalibratedAbove);
  const NodeGroup& group = costs.cluster().groups.front();
  if (group.host_op_s || group.device.kind != DeviceKind::kCuda) return false;
  const EngineProfile& engine = TimedEngine(costs.cluster());
  if (engine.host_op_s) {
    const double device_s = costs.EstimatedSeconds(plan, 0) - engine.step_s;
    const double bound = 1 - device_s / costs.EstimatedSeconds(plan, *engine.host_op_s);
    prediction.step_time_low_s -= prediction.step_time_s * bound * (kTypicalHostBelow - kUncalibratedBelow);
    prediction.step_time_high_s += prediction.step_time_s * bound * (kTypicalHostAbove - kUncalibratedAbove);
    return false;
  }
  // By the closed form, whose error relative to the timer is the same in both terms.
  const double slower =
      costs.EstimatedSeconds(plan, kScriptedHostOpSeconds) / costs.EstimatedSeconds(plan, 0);
  if (!(slower > 1 + kUncalibratedAbove)) return false;
  prediction.step_time_high_s = prediction.step_time_s * slower;
  return true;
}

void SetCalibratedInterval(Prediction& prediction, CostModel& costs, const ParallelPlan& plan) {
  const Calibration& calibration = *costs.cluster().calibration;
  const bool one_node = RankCount(plan) <= costs.cluster().groups.front().gpus_per_node;
  const double seen = one_node ? calibration.one_node_sigma : calibration.many_nodes_sigma;
  const double other = one_node ? calibration.many_nodes_sigma : calibration.one_node_sigma;
  const double slower = seen > 0 ? seen : std::hypot(kUnseenNodesSigma, other);
  const double faster = seen > 0 && !one_node ? slower / kSlowerOverFaster : slower;

  // The share of the blocks: of the pipeline, as in its last stage, which has the output layer.
  const Breakdown& parts = prediction.breakdown;
  const double pipeline =
      (parts.compute + parts.recompute + parts.tp_comm + parts.bubble) / prediction.step_time_s;
  const double output_layer_s = costs.BlocksOf(plan).head.Total();
  const double stage_s = costs.CostsOf(plan).stages.back().Total();
  const double output_layer = stage_s > 0 ? std::fmin(output_layer_s / stage_s, 1) : 0;
  const CostModel::Corrections corrections = costs.CorrectionsOf(plan);
  const double blocks = std::hypot(pipeline * (1 - output_layer) * corrections.layer.sigma,
                                   pipeline * output_layer * corrections.output_layer.sigma);
  const auto factor = [&](double step) { return std::exp(kSigmasOf90Percent * std::hypot(step, blocks)); };
  prediction.step_time_low_s = prediction.step_time_s / factor(faster);
  prediction.step_time_high_s = prediction.step_time_s * factor(slower);
}

bool SetDescribedInterval(Prediction& prediction, CostModel& costs, const ParallelPlan& plan) {
  if (!costs.cluster().calibration) return SetUncalibratedInterval(prediction, costs, plan);
  SetCalibratedInterval(prediction, costs, plan);
  return false;
}

}  // namespace autocfg
