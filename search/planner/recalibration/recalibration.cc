#include "search/planner/recalibration/recalibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "Eigen/Cholesky"
#include "search/plan/cluster/calibration.h"
#include "search/plan/model_stages.h"

namespace autocfg {
namespace {

constexpr double kGlobalSigma = 0.2;
constexpr double kFeatureSigma = 0.1;
constexpr double kAxisSlopeSigma = 0.05;
constexpr double kSplitSigma = 0.03;
constexpr double kSequenceSigma = 0.05;  // an estimate: its gathers and scatters replace all-reduces
constexpr double kMessagesSigma =
    0.03;                             // an estimate: messages that overlap take time of the computing cores
constexpr double kSumsSigma = 0.03;   // an estimate: sums and products take bandwidth from each other
constexpr double kUnitsSigma = 0.03;  // an estimate: so do reductions or gathers of units and computes
constexpr double kPartSigma = 0.3;
constexpr double kBubbleSigma = 0.15;
constexpr std::array<double, 8> kResidualSigmas = {0.005, 0.01, 0.02, 0.03, 0.045, 0.07, 0.1, 0.15};
constexpr std::array<double, 3> kPriorScales = {0.5, 1, 2.5};

// Returns the log prior of a grid point: log-normal around a residual of 3% and a scale of 1.
double LogPrior(double residual, double scale) {
  const double r = std::log(residual / 0.03) / 0.8, s = std::log(scale) / 0.6;
  return -(r * r + s * s) / 2;
}

// Drawn numbers of a normal distribution with deviation 1, the same on every machine (Box and Muller 1958).
class NormalDraws {
 public:
  explicit NormalDraws(std::uint64_t seed) : random_(seed) {}
  double Next() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }
  // From 0 to 1, 1 excluded.
  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 random_;
};

// The effects that do not depend on what was measured, by index; those of the measured shapes and layouts
// follow.
enum Effect : Eigen::Index {
  kEveryPlan,
  kTensorPart,
  kPipelinePart,
  kDataPart,
  kBubblePart,
  kOptimizerPart,
  kOverheadPart,
  kScheduleEffect,
  kRecomputesNone = kScheduleEffect + kScheduleCount,
  kRecomputesAll,
  kUnevenSplit,
  kEvenSplit,
  kWholeSequence,
  kSplitSequence,
  kWaitedMessages,
  kOverlappedMessages,
  kWaitedSums,
  kOverlappedSums,
  kWaitedGradients,
  kOverlappedGradients,
  kWaitedParameters,
  kOverlappedParameters,
  kVirtualStagesSlope,
  kAxisSlope,  // of each axis
  kLastAxisSlope = kAxisSlope + kAxisCount - 1,
  kFixedEffects,
};

// All plans of a study have the same hidden size and sequence length.
BlockShape ShapeOf(const ParallelPlan& plan) { return {.micro_batch = plan.micro_batch, .tp = plan.tp}; }

// Returns the share of the model's layers that recompute their forward pass.
double RecomputedShare(const ParallelPlan& plan, std::int64_t layers) {
  if (plan.recompute != Recompute::kFull) return 0;
  if (plan.recompute_layers == 0) return 1;
  std::int64_t recomputed = 0;
  if (plan.split == SplitMode::kExplicit) {
    for (const std::int64_t stage : plan.split_layers) recomputed += FullyRecomputedLayers(plan, stage);
  } else {
    const std::int64_t stages = StageCount(plan);
    recomputed = stages * FullyRecomputedLayers(plan, layers / stages);
  }
  return static_cast<double>(recomputed) / static_cast<double>(layers);
}

}  // namespace

Recalibration::Row Recalibration::RowOf(const ParallelPlan& plan, const Breakdown& predicted) const {
  const auto slope = [](std::int64_t size) { return kAxisSlopeSigma * std::log2(static_cast<double>(size)); };
  const double recomputed = RecomputedShare(plan, layers_);
  const double step_s = predicted.Total();
  const auto part = [&](double seconds) { return kPartSigma * seconds / step_s; };
  Row row{.effects = {{kEveryPlan, kGlobalSigma},
                      {kTensorPart, part(predicted.tp_comm)},
                      {kPipelinePart, part(predicted.pp_comm)},
                      {kDataPart, part(predicted.dp_comm)},
                      {kBubblePart, kBubbleSigma * predicted.bubble / step_s},
                      {kOptimizerPart, part(predicted.optimizer)},
                      {kOverheadPart, part(predicted.overhead)},
                      {kScheduleEffect + static_cast<Eigen::Index>(plan.schedule), kFeatureSigma},
                      {kRecomputesNone, kFeatureSigma * (1 - recomputed)},
                      {kRecomputesAll, kFeatureSigma * recomputed},
                      {plan.split == SplitMode::kEven ? kEvenSplit : kUnevenSplit, kSplitSigma},
                      {SplitsSequence(plan) ? kSplitSequence : kWholeSequence, kSequenceSigma},
                      {OverlapsMessages(plan) ? kOverlappedMessages : kWaitedMessages, kMessagesSigma},
                      {TensorChunks(plan) > 1 ? kOverlappedSums : kWaitedSums, kSumsSigma},
                      {plan.grad_overlap ? kOverlappedGradients : kWaitedGradients, kUnitsSigma},
                      {plan.param_overlap ? kOverlappedParameters : kWaitedParameters, kUnitsSigma},
                      {kVirtualStagesSlope, slope(plan.virtual_stages)}}};
  for (std::size_t i = 0; i < kAxisCount; ++i)
    row.effects.emplace_back(kAxisSlope + static_cast<Eigen::Index>(i), slope(plan.*kAxes[i].size));
  const double layers = (predicted.compute + predicted.recompute) / step_s;
  const ShapeBasis::Coordinates shape = shapes_.At(ShapeOf(plan));
  for (std::size_t i = 0; i < shape.measured.size(); ++i)
    row.effects.emplace_back(kFixedEffects + static_cast<Eigen::Index>(i), layers * shape.measured[i]);
  row.shape_left = layers * std::sqrt(shape.own_variance);
  if (const auto layout = layouts_.find(plan.mesh()); layout != layouts_.end()) {
    row.effects.emplace_back(layout->second, kFeatureSigma);
  } else {
    row.layout_left = kFeatureSigma;
  }
  std::erase_if(row.effects, [](const auto& effect) { return effect.second == 0; });
  return row;
}

Recalibration::Recalibration(std::int64_t layers, const std::vector<RatioObservation>& observations)
    : layers_(layers) {
  std::vector<BlockShape> shapes;
  shapes.reserve(observations.size());
  for (const RatioObservation& o : observations) shapes.push_back(ShapeOf(o.plan));
  shapes_ = ShapeBasis(ShapePriors{}.layers, shapes);
  const Eigen::Index before_layouts = kFixedEffects + shapes_.size();
  for (const RatioObservation& o : observations) {
    layouts_.try_emplace(o.plan.mesh(), before_layouts + static_cast<Eigen::Index>(layouts_.size()));
  }
  std::vector<Row> rows;
  rows.reserve(observations.size());
  for (const RatioObservation& o : observations) rows.push_back(RowOf(o.plan, o.predicted));
  const Eigen::Index n = before_layouts + static_cast<Eigen::Index>(layouts_.size());

  double best = -std::numeric_limits<double>::infinity();
  for (double residual : kResidualSigmas) {
    // The logarithm of the likelihood as far as it depends on the variances of the measurements.
    NormalEquations equations(n);
    double log_residual = 0;
    for (std::size_t i = 0; i < observations.size(); ++i) {
      const double y = observations[i].log_ratio, noise = observations[i].noise_sigma;
      const double variance = residual * residual + noise * noise;
      log_residual -= (y * y / variance + std::log(variance)) / 2;
      equations.Add(rows[i].effects, y, 1 / variance);
    }
    for (double scale : kPriorScales) {
      NormalEquations with_prior = equations;
      with_prior.AddPrior(0, Eigen::VectorXd::Constant(n, 1 / (scale * scale)));
      Hypothesis h{.residual_sigma = residual, .prior_scale = scale, .effects = with_prior.Solve()};
      h.weight = LogPrior(residual, scale) + log_residual + h.effects.explained / 2 -
                 h.effects.log_determinant / 2 - static_cast<double>(n) * std::log(scale);
      best = std::max(best, h.weight);
      hypotheses_.push_back(std::move(h));
    }
  }
  // Hypotheses below a hundredth of the best weight have no visible effect.
  std::erase_if(hypotheses_, [&](const Hypothesis& h) { return h.weight < best - std::log(100.0); });
  double sum = 0;
  for (Hypothesis& h : hypotheses_) sum += h.weight = std::exp(h.weight - best);

  mean_ = Eigen::VectorXd::Zero(n);
  second_ = Eigen::MatrixXd::Zero(n, n);
  for (Hypothesis& h : hypotheses_) {
    h.weight /= sum;
    residual_sigma_ += h.weight * h.residual_sigma;
    second_scale_ += h.weight * h.prior_scale * h.prior_scale;
    second_residual_ += h.weight * h.residual_sigma * h.residual_sigma;
    mean_ += h.weight * h.effects.mean;
    second_ += h.weight * (h.effects.covariance + h.effects.mean * h.effects.mean.transpose());
  }
}

Correction Recalibration::For(const ParallelPlan& plan, const Breakdown& predicted) const {
  const Row row = RowOf(plan, predicted);
  double mean = 0;
  double second = second_residual_ + second_scale_ * row.LeftOver();
  for (const auto& [a, at_a] : row.effects) {
    mean += at_a * mean_(a);
    for (const auto& [b, at_b] : row.effects) second += at_a * at_b * second_(a, b);
  }
  // A plan's own effect always remains; rounding must not reduce the variance below it.
  return {mean, std::sqrt(std::max(second - mean * mean, second_residual_))};
}

std::vector<double> Recalibration::ChanceOfAnyFrom(const std::vector<Threshold>& plans) const {
  constexpr int kDraws = 128;
  constexpr double kOutOfReach = -8;  // deviations of its own effect that no plan is away from the others
  std::vector<Row> rows;
  std::map<MeshOptions, double> layouts;  // what is left over of unmeasured layouts, and of shapes, by draw
  std::map<BlockShape, double> shapes;
  rows.reserve(plans.size());
  for (const Threshold& t : plans) rows.push_back(RowOf(*t.plan, *t.predicted));
  std::vector<double*> layout_of, shape_of;
  layout_of.reserve(plans.size());
  shape_of.reserve(plans.size());
  for (const Threshold& t : plans) {
    layout_of.push_back(&layouts[t.plan->mesh()]);
    shape_of.push_back(&shapes[ShapeOf(*t.plan)]);
  }
  std::vector<Eigen::MatrixXd> spreads;  // lower Cholesky factors of the covariances
  spreads.reserve(hypotheses_.size());
  for (const Hypothesis& h : hypotheses_) spreads.emplace_back(h.effects.covariance.llt().matrixL());

  NormalDraws draws(1);
  std::vector<double> chances(plans.size() + 1);
  Eigen::VectorXd normals(mean_.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    // Hypotheses come in proportion to their weights.
    std::size_t at = 0;
    for (double left = (draw + 0.5) / kDraws; at + 1 < hypotheses_.size() && left > hypotheses_[at].weight;
         ++at)
      left -= hypotheses_[at].weight;
    const Hypothesis& h = hypotheses_[at];
    for (double& normal : normals) normal = draws.Next();
    const Eigen::VectorXd effects = h.effects.mean + spreads[at] * normals;
    for (auto& [layout, left] : layouts) left = h.prior_scale * draws.Next();
    for (auto& [shape, left] : shapes) left = h.prior_scale * draws.Next();
    double none = 0;  // logarithm of the chance of none
    for (std::size_t k = plans.size(); k-- > 0;) {
      const Row& row = rows[k];
      double mean = row.layout_left * *layout_of[k] + row.shape_left * *shape_of[k];
      for (const auto& [effect, value] : row.effects) mean += value * effects(effect);
      const double z = (plans[k].log_ratio - mean) / h.residual_sigma;
      if (z > kOutOfReach) none += std::log1p(-std::erfc(-z / std::numbers::sqrt2) / 2);
      chances[k] -= std::expm1(none) / kDraws;
    }
  }
  return chances;
}

}  // namespace autocfg
