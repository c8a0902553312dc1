// Fits to steps that another cluster's predictions made: the truth is known.
#include "search/fit/cluster_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "search/plan/rank_mesh.h"
#include "search/predict/predict_plan.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

constexpr double kNoise = 0.003;

// Steps of small GPTs on one node of the true cluster, with 0.3% of noise.
Measurements StepsOf(const ClusterSpec& truth) {
  Measurements steps{.rows = {}, .skipped = {}, .notes = {}, .cluster = *PresetCluster("a100-80gb-sxm:1x8")};
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, kNoise);
  for (const std::int64_t hidden : {1024, 2048, 4096}) {
    for (const std::int64_t micro_batch : {1, 2, 4}) {
      for (const std::int64_t tp : {1, 2, 4}) {
        for (const std::int64_t pp : {1, 2}) {
          for (const std::int64_t layers : {8, 16}) {
            Measurement m;
            m.line = static_cast<std::int64_t>(steps.rows.size()) + 2;
            m.model = {.layers = layers, .hidden = hidden, .heads = 16, .vocab = 51200};
            FillDefaults(m.model, 1024);
            m.workload = {64, 1024, *ParsePrecision("fp16")};
            m.plan = {{.tp = tp, .pp = pp, .dp = 8 / tp / pp}, {.micro_batch = micro_batch}};
            const auto predicted = PredictPlan(m.model, m.workload, truth, m.plan);
            EXPECT_TRUE(predicted.ok()) << predicted.status();
            m.step_time_s = predicted->prediction.step_time_s * std::exp(noise(random));
            steps.rows.push_back(m);
          }
        }
      }
    }
  }
  return steps;
}

ClusterSpec Truth() {
  ClusterSpec truth = *PresetCluster("a100-80gb-sxm:1x8");
  NodeGroup& group = truth.groups.front();
  group.host_op_s = 9e-5;
  group.device.efficiency.matmul = 0.68;
  group.device.efficiency.optimizer = 0.5;
  group.device.efficiency.data_exposed = 0.6;
  group.device.efficiency.intra_node_message = 0.05;
  return truth;
}

const FittedFigure& Figure(const ClusterFit& fit, const std::string& name) {
  const auto& figures = fit.cluster.calibration->figures;
  const auto found =
      std::find_if(figures.begin(), figures.end(), [&](const FittedFigure& f) { return f.name == name; });
  EXPECT_NE(found, figures.end()) << name;
  return *found;
}

double ErrorOf(const ClusterSpec& fitted, const ClusterSpec& truth, const Measurement& m) {
  const double got = PredictPlan(m.model, m.workload, fitted, m.plan)->prediction.step_time_s;
  const double want = PredictPlan(m.model, m.workload, truth, m.plan)->prediction.step_time_s;
  return std::abs(got / want - 1);
}

TEST(ClusterFit, FindsTheFiguresThatTheStepsDetermine) {
  const ClusterSpec truth = Truth();
  const Measurements steps = StepsOf(truth);
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_TRUE(Validate(fit->cluster).ok());
  for (const double residual : fit->residuals) EXPECT_LT(std::abs(residual), 6 * kNoise);
  const FittedFigure& host = Figure(*fit, "host_op_s");
  EXPECT_TRUE(host.known);
  EXPECT_NEAR(host.value / 9e-5, 1, 0.1);
  const FittedFigure& message = Figure(*fit, "efficiency.intra_node_message");
  EXPECT_TRUE(message.known);
  EXPECT_NEAR(message.value / 0.05, 1, 0.2);
  for (const FittedFigure& figure : fit->cluster.calibration->figures)
    EXPECT_EQ(figure.name.find("inter_node"), std::string::npos) << "no step leaves the node";
  const auto links = [](const ClusterSpec& cluster) { return cluster.groups.front().device.efficiency; };
  EXPECT_EQ(links(fit->cluster).inter_node, links(steps.cluster).inter_node);
  EXPECT_EQ(links(fit->cluster).inter_node_message, links(steps.cluster).inter_node_message);
  EXPECT_EQ(fit->cluster.calibration->many_nodes_sigma, 0);
  EXPECT_NEAR(fit->cluster.calibration->one_node_sigma / kNoise, 1.1, 0.5);
}

// Plans of measured shapes, of another depth than any that was measured.
TEST(ClusterFit, PredictsOtherModelsOfMeasuredShapes) {
  const ClusterSpec truth = Truth();
  const Measurements steps = StepsOf(truth);
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  for (Measurement m : steps.rows) {
    m.model.layers = 12;
    EXPECT_LT(ErrorOf(fit->cluster, truth, m), 0.01) << m.line;
  }
}

// A shape whose layers take half as long again, as no figure explains.
TEST(ClusterFit, AShapeMayDifferFromTheModel) {
  ClusterSpec truth = Truth();
  truth.calibration.emplace();
  truth.calibration->layers = {
      .prior_sigma = 0.1,
      .own = 1,
      .octaves = 1,
      .shapes = {{{.hidden = 2048, .seq_len = 1024, .micro_batch = 4, .tp = 2}, 0.4, 0}}};
  truth.calibration->one_node_sigma = 0.01;
  const Measurements steps = StepsOf(truth);
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  for (const Measurement& m : steps.rows) EXPECT_LT(ErrorOf(fit->cluster, truth, m), 0.02) << m.line;
}

// A wrong row moves nothing else.
TEST(ClusterFit, IsRobust) {
  const ClusterSpec truth = Truth();
  Measurements steps = StepsOf(truth);
  const Measurements right = steps;
  for (const std::size_t i : {3, 40, 77}) steps.rows[i].step_time_s *= 3;
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  int far = 0;
  for (const Measurement& m : right.rows) far += ErrorOf(fit->cluster, truth, m) > 0.02;
  EXPECT_LE(far, 4) << "of a shape with four steps, one of them wrong";
}

// Intervals of what was not measured are wider.
TEST(ClusterFit, IntervalsWidenAwayFromMeasuredShapes) {
  const ClusterSpec truth = Truth();
  const Measurements steps = StepsOf(truth);
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  const auto width = [&](const Measurement& m) {
    const Prediction p = PredictPlan(m.model, m.workload, fit->cluster, m.plan)->prediction;
    return std::log(p.step_time_high_s / p.step_time_low_s);
  };
  Measurement m = steps.rows.front();
  const double seen = width(m);
  EXPECT_LT(seen, 0.03);
  m.model = {.layers = 8, .hidden = 512, .heads = 8, .vocab = 51200};
  FillDefaults(m.model, 1024);
  EXPECT_GT(width(m), 3 * seen);
  ClusterSpec larger = fit->cluster;
  larger.groups.front().nodes = 2;
  m = steps.rows.front();
  m.plan.dp *= 2;
  const Prediction many = PredictPlan(m.model, m.workload, larger, m.plan)->prediction;
  EXPECT_GT(std::log(many.step_time_high_s / many.step_time_low_s), 0.3) << "no step left the node";
}

TEST(ClusterFit, RefusesWhatItCannotFit) {
  Measurements none = StepsOf(Truth());
  none.rows.clear();
  EXPECT_EQ(FitCluster(none).status().code(), absl::StatusCode::kInvalidArgument);
  const Measurements steps = StepsOf(Truth());
  EXPECT_EQ(FitCluster(steps, {}, [] { return false; }).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace autocfg
