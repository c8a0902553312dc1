// Fits to steps that another cluster's predictions made: the truth is known.
#include "search/fit/cluster_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "search/plan/rank_mesh.h"
#include "search/predict/predict_plan.h"
#include "search/predict/prediction_interval.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

constexpr double kNoise = 0.003;

// Steps of small GPTs on the true cluster, with noise.
Measurements StepsOf(const ClusterSpec& truth, double sigma = kNoise,
                     const std::vector<std::int64_t>& depths = {8, 16}) {
  Measurements steps{.rows = {}, .skipped = {}, .notes = {}, .cluster = *PresetCluster("a100-80gb-sxm:1x8")};
  steps.cluster.groups.front().nodes = truth.groups.front().nodes;
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, sigma);
  for (const std::int64_t hidden : {1024, 2048, 4096}) {
    for (const std::int64_t micro_batch : {1, 2, 4}) {
      for (const std::int64_t tp : {1, 2, 4}) {
        for (const std::int64_t pp : {1, 2}) {
          for (const std::int64_t layers : depths) {
            Measurement m;
            m.line = static_cast<std::int64_t>(steps.rows.size()) + 2;
            m.model = {.layers = layers, .hidden = hidden, .heads = 16, .vocab = 51200};
            FillDefaults(m.model, 1024);
            m.workload = {64 * truth.groups.front().nodes, 1024, *ParsePrecision("fp16")};
            m.plan = {{.tp = tp, .pp = pp, .dp = RankCount(truth) / tp / pp}, {.micro_batch = micro_batch}};
            const auto predicted = PredictPlan({{m.model, m.workload, truth}, m.plan});
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
  group.device.efficiency.matmul *= 0.94;
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
  const double got = PredictPlan({{m.model, m.workload, fitted}, m.plan})->prediction.step_time_s;
  const double want = PredictPlan({{m.model, m.workload, truth}, m.plan})->prediction.step_time_s;
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

// Few steps on a device that is far slower than its preset; they are no outliers.
TEST(ClusterFit, FindsAFactorThatAllStepsShare) {
  for (const auto& [factor, noise] :
       {std::pair{1.5, 0.0}, {2.0, 0.0}, {3.0, 0.0}, {2.0, 0.03}, {3.0, 0.03}}) {
    Measurements steps = StepsOf(*PresetCluster("a100-80gb-sxm:1x8"), noise, {8});
    std::erase_if(steps.rows, [](const Measurement& m) {
      return m.model.hidden != 2048 || m.plan.pp != 1 || m.plan.tp == 4;
    });
    ASSERT_EQ(steps.rows.size(), 6u);
    for (Measurement& m : steps.rows) m.step_time_s *= factor;
    const auto fit = FitCluster(steps);
    ASSERT_TRUE(fit.ok()) << fit.status();
    for (const double residual : fit->residuals)
      EXPECT_NEAR(residual, 0, 0.02 + 3 * noise) << factor << " " << noise;
  }
}

// A device is not faster than its peaks.
TEST(ClusterFit, IntervalHoldsStepsThatNoFigureExplains) {
  Measurements steps = StepsOf(*PresetCluster("a100-80gb-sxm:1x8"), 0, {8});
  std::erase_if(steps.rows, [](const Measurement& m) {
    return m.model.hidden != 2048 || m.plan.pp != 1 || m.plan.tp != 1;
  });
  ASSERT_EQ(steps.rows.size(), 3u);
  for (Measurement& m : steps.rows) m.step_time_s *= 0.5;
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  for (const double residual : fit->residuals)
    EXPECT_LT(std::abs(residual), kSigmasOf90Percent * fit->cluster.calibration->one_node_sigma);
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

ClusterSpec TruthOfManyNodes() {
  ClusterSpec truth = Truth();
  truth.groups.front().nodes = 4;
  truth.groups.front().device.efficiency.inter_node = 0.5;
  return truth;
}

// Half of the steps were delayed, by 15% in the mean.
TEST(ClusterFit, DelayedStepsOfManyNodesMoveLittle) {
  const ClusterSpec truth = TruthOfManyNodes();
  Measurements steps = StepsOf(truth, 0.02, {12});
  std::mt19937_64 random(11);
  std::exponential_distribution<double> delay(1 / 0.15);
  for (std::size_t i = 0; i < steps.rows.size(); i += 2) steps.rows[i].step_time_s *= 1 + delay(random);
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  double errors = 0;
  for (const Measurement& m : steps.rows) errors += ErrorOf(fit->cluster, truth, m);
  EXPECT_LT(errors / static_cast<double>(steps.rows.size()), 0.025);
}

bool IsOfFamily(const Measurement& m) { return m.model.hidden == 4096 && m.plan.tp == 2; }

// The layers of all microbatches of the family take 1.5 times the model's.
ClusterSpec TruthWithIrregularFamily() {
  ClusterSpec truth = TruthOfManyNodes();
  BlockCorrections& layers = truth.calibration.emplace().layers;
  layers = {.prior_sigma = 0.1, .own = 1, .octaves = 1, .shapes = {}};
  for (const std::int64_t micro_batch : {1, 2, 4}) {
    layers.shapes.push_back(
        {{.hidden = 4096, .seq_len = 1024, .micro_batch = micro_batch, .tp = 2}, std::log(1.5), 0});
  }
  return truth;
}

// Other shapes do not follow.
TEST(ClusterFit, AFamilyOfShapesMayBeFarFromTheModel) {
  const ClusterSpec truth = TruthWithIrregularFamily();
  const auto fit = FitCluster(StepsOf(truth, 0.05, {12}));
  ASSERT_TRUE(fit.ok()) << fit.status();
  double of_family = 0, of_others = 0;
  int family = 0, others = 0;
  for (const Measurement& m : StepsOf(truth, 0, {12}).rows) {
    const bool far = IsOfFamily(m);
    (far ? of_family : of_others) += ErrorOf(fit->cluster, truth, m);
    ++(far ? family : others);
  }
  EXPECT_EQ(family, 6);
  EXPECT_LT(of_family / family, 0.04);
  EXPECT_LT(of_others / others, 0.03);
}

// A microbatch of an irregular family that was not measured follows those that were; others do not.
TEST(ClusterFit, AnIrregularFamilyReachesItsOtherMicrobatches) {
  const ClusterSpec truth = TruthWithIrregularFamily();
  const auto left_out = [](const Measurement& m) {
    return m.plan.micro_batch == 4 && (m.plan.tp == 1 || IsOfFamily(m));
  };
  Measurements steps = StepsOf(truth, 0.05, {12});
  steps.rows.erase(std::remove_if(steps.rows.begin(), steps.rows.end(), left_out), steps.rows.end());
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  ASSERT_EQ(fit->cluster.calibration->layers.irregular.size(), 1);
  const IrregularShapes& family = fit->cluster.calibration->layers.irregular[0];
  EXPECT_TRUE(family.Holds({.hidden = 4096, .seq_len = 1024, .micro_batch = 4, .tp = 2}));
  int members = 0, others = 0;
  for (const Measurement& m : StepsOf(truth, 0, {12}).rows) {
    if (!left_out(m)) continue;
    ++(IsOfFamily(m) ? members : others);
    EXPECT_LT(ErrorOf(fit->cluster, truth, m), IsOfFamily(m) ? 0.08 : 0.05) << m.model.hidden;
  }
  EXPECT_EQ(members, 2);
  EXPECT_EQ(others, 6);
}

// An interval of 90% holds nine of ten steps that it was not fitted to, also if slow ones are many.
TEST(ClusterFit, IntervalsHoldDelayedSteps) {
  const ClusterSpec truth = TruthOfManyNodes();
  Measurements all = StepsOf(truth, 0.02, {8, 12});
  std::mt19937_64 random(13);
  std::exponential_distribution<double> delay(1 / 0.15);
  std::shuffle(all.rows.begin(), all.rows.end(), random);
  for (std::size_t i = 0; i < all.rows.size(); i += 2) all.rows[i].step_time_s *= 1 + delay(random);
  Measurements steps = all;
  steps.rows.resize(all.rows.size() / 2);
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  int held = 0;
  const auto left = static_cast<int>(all.rows.size() - steps.rows.size());
  for (std::size_t i = steps.rows.size(); i < all.rows.size(); ++i) {
    const Measurement& m = all.rows[i];
    const Prediction p = PredictPlan({{m.model, m.workload, fit->cluster}, m.plan})->prediction;
    held += p.step_time_low_s <= m.step_time_s && m.step_time_s <= p.step_time_high_s;
  }
  EXPECT_GE(held, left * 8 / 10) << "of " << left;

  const Measurement& seen = steps.rows.front();
  const Prediction p = PredictPlan({{seen.model, seen.workload, fit->cluster}, seen.plan})->prediction;
  const double slower = std::log(p.step_time_high_s / p.step_time_s);
  EXPECT_NEAR(slower / kSigmasOf90Percent, fit->cluster.calibration->many_nodes_sigma, 0.02);
  EXPECT_NEAR(std::log(p.step_time_s / p.step_time_low_s), slower / 2, 0.02) << "delays make slower";
}

// The side of faster steps is half the other one, and holds them also where they are what scatters.
TEST(ClusterFit, IntervalsHoldFasterStepsOfManyNodes) {
  const ClusterSpec truth = TruthOfManyNodes();
  Measurements all = StepsOf(truth, 0.02, {8, 12});
  std::mt19937_64 random(13);
  std::exponential_distribution<double> gain(1 / 0.15);
  std::shuffle(all.rows.begin(), all.rows.end(), random);
  for (std::size_t i = 0; i < all.rows.size(); i += 4) all.rows[i].step_time_s /= 1 + gain(random);
  Measurements steps = all;
  steps.rows.resize(all.rows.size() / 2);
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  int below = 0;
  const auto left = static_cast<int>(all.rows.size() - steps.rows.size());
  for (std::size_t i = steps.rows.size(); i < all.rows.size(); ++i) {
    const Measurement& m = all.rows[i];
    below += m.step_time_s <
             PredictPlan({{m.model, m.workload, fit->cluster}, m.plan})->prediction.step_time_low_s;
  }
  EXPECT_LE(below, left / 10) << "of " << left;
}

// Intervals of what was not measured are wider.
TEST(ClusterFit, IntervalsWidenAwayFromMeasuredShapes) {
  const ClusterSpec truth = Truth();
  const Measurements steps = StepsOf(truth);
  const auto fit = FitCluster(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  const auto width = [&](const Measurement& m) {
    const Prediction p = PredictPlan({{m.model, m.workload, fit->cluster}, m.plan})->prediction;
    return std::log(p.step_time_high_s / p.step_time_low_s);
  };
  Measurement m = steps.rows.front();
  const double seen = width(m);
  EXPECT_LT(seen, 0.03);
  const Prediction one = PredictPlan({{m.model, m.workload, fit->cluster}, m.plan})->prediction;
  EXPECT_NEAR(one.step_time_high_s / one.step_time_s, one.step_time_s / one.step_time_low_s, 1e-9);
  m.model = {.layers = 8, .hidden = 512, .heads = 8, .vocab = 51200};
  FillDefaults(m.model, 1024);
  EXPECT_GT(width(m), 3 * seen);
  ClusterSpec larger = fit->cluster;
  larger.groups.front().nodes = 2;
  m = steps.rows.front();
  m.plan.dp *= 2;
  const Prediction many = PredictPlan({{m.model, m.workload, larger}, m.plan})->prediction;
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
