#include "search/planner/recalibration.h"

#include <algorithm>
#include <cmath>
#include <limits>

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
constexpr std::array<double, 6> kResidualSigmas = {0.02, 0.03, 0.045, 0.07, 0.1, 0.15};
constexpr std::array<double, 3> kPriorScales = {0.5, 1, 2.5};

// Returns the log prior of a grid point: log-normal around a residual of 5% and a scale of 1.
double LogPrior(double residual, double scale) {
  const double r = std::log(residual / 0.05) / 0.7, s = std::log(scale) / 0.6;
  return -(r * r + s * s) / 2;
}

// Replaces the lower triangle of `a` (n x n) by its Cholesky factor. Requires a positive definite matrix.
void Cholesky(std::vector<double>& a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
    }
  }
}

// x := L^-1 x
void SolveLower(const std::vector<double>& l, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= l[i * n + k] * x[k];
    x[i] /= l[i * n + i];
  }
}

// x := L^-T x
void SolveUpper(const std::vector<double>& l, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= l[k * n + i] * x[k];
    x[i] /= l[i * n + i];
  }
}

// Returns the inverse of a matrix, given its Cholesky factor.
std::vector<double> Inverse(const std::vector<double>& l, std::size_t n) {
  std::vector<double> inverse(n * n), column(n);
  for (std::size_t j = 0; j < n; ++j) {
    std::fill(column.begin(), column.end(), 0.0);
    column[j] = 1;
    SolveLower(l, column);
    SolveUpper(l, column);
    for (std::size_t i = 0; i < n; ++i) inverse[i * n + j] = column[i];
  }
  return inverse;
}

// One grid point with its solved regression.
struct Hypothesis {
  double residual_sigma = 0;
  double prior_scale = 1;
  double weight = 1;
  std::vector<double> cholesky;  // lower triangle of the effects' posterior precision, n x n by rows
  std::vector<double> mean;      // of the effects
};

// The effects that do not depend on what was measured, by index; those of the measured layouts follow.
enum Effect : std::size_t {
  kEveryPlan,
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
  kMicroBatchSlope,
  kTpSlope,
  kPpSlope,
  kDpSlope,
  kVirtualStagesSlope,
  kFixedEffects,
};

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

Recalibration::Row Recalibration::RowOf(const ParallelPlan& plan) const {
  const auto slope = [](std::int64_t size) { return kAxisSlopeSigma * std::log2(static_cast<double>(size)); };
  const double recomputed = RecomputedShare(plan, layers_);
  Row row{.effects = {{kEveryPlan, kGlobalSigma},
                      {kScheduleEffect + static_cast<std::size_t>(plan.schedule), kFeatureSigma},
                      {kRecomputesNone, kFeatureSigma * (1 - recomputed)},
                      {kRecomputesAll, kFeatureSigma * recomputed},
                      {plan.split == SplitMode::kEven ? kEvenSplit : kUnevenSplit, kSplitSigma},
                      {SplitsSequence(plan) ? kSplitSequence : kWholeSequence, kSequenceSigma},
                      {OverlapsMessages(plan) ? kOverlappedMessages : kWaitedMessages, kMessagesSigma},
                      {TensorChunks(plan) > 1 ? kOverlappedSums : kWaitedSums, kSumsSigma},
                      {plan.grad_overlap ? kOverlappedGradients : kWaitedGradients, kUnitsSigma},
                      {plan.param_overlap ? kOverlappedParameters : kWaitedParameters, kUnitsSigma},
                      {kMicroBatchSlope, kFeatureSigma * std::log2(static_cast<double>(plan.micro_batch))},
                      {kTpSlope, slope(plan.tp)},
                      {kPpSlope, slope(plan.pp)},
                      {kDpSlope, slope(plan.dp)},
                      {kVirtualStagesSlope, slope(plan.virtual_stages)}}};
  const auto layout = layouts_.find({plan.tp, plan.pp, plan.dp});
  row.known_layout = layout != layouts_.end();
  if (row.known_layout) row.effects.emplace_back(layout->second, kFeatureSigma);
  return row;
}

Recalibration::Recalibration(std::int64_t layers, const std::vector<RatioObservation>& observations)
    : layers_(layers) {
  for (const RatioObservation& o : observations)
    layouts_.try_emplace({o.plan.tp, o.plan.pp, o.plan.dp}, kFixedEffects + layouts_.size());
  std::vector<Row> rows;
  rows.reserve(observations.size());
  for (const RatioObservation& o : observations) rows.push_back(RowOf(o.plan));
  const std::size_t n = kFixedEffects + layouts_.size();

  std::vector<Hypothesis> hypotheses;
  double best = -std::numeric_limits<double>::infinity();
  for (double residual : kResidualSigmas) {
    // The normal equations, with each observation weighted by its own variance: their matrix (lower
    // triangle) and right side, and the logarithm of the likelihood as far as it depends on these variances.
    std::vector<double> matrix(n * n), right(n);
    double log_residual = 0;
    for (std::size_t i = 0; i < observations.size(); ++i) {
      const double y = observations[i].log_ratio, noise = observations[i].noise_sigma;
      const double variance = residual * residual + noise * noise;
      log_residual -= (y * y / variance + std::log(variance)) / 2;
      for (const auto& [a, at_a] : rows[i].effects) {
        right[a] += at_a * y / variance;
        for (const auto& [b, at_b] : rows[i].effects) {
          if (b <= a) matrix[a * n + b] += at_a * at_b / variance;
        }
      }
    }
    for (double scale : kPriorScales) {
      Hypothesis h{
          .residual_sigma = residual, .prior_scale = scale, .weight = 0, .cholesky = matrix, .mean = right};
      for (std::size_t a = 0; a < n; ++a) h.cholesky[a * n + a] += 1 / (scale * scale);
      Cholesky(h.cholesky, n);
      SolveLower(h.cholesky, h.mean);
      double log_likelihood = LogPrior(residual, scale) + log_residual;
      for (std::size_t a = 0; a < n; ++a)
        log_likelihood += h.mean[a] * h.mean[a] / 2 - std::log(h.cholesky[a * n + a] * scale);
      SolveUpper(h.cholesky, h.mean);
      h.weight = log_likelihood;
      best = std::max(best, log_likelihood);
      hypotheses.push_back(std::move(h));
    }
  }
  // Hypotheses below a hundredth of the best weight have no visible effect.
  std::erase_if(hypotheses, [&](const Hypothesis& h) { return h.weight < best - std::log(100.0); });
  double sum = 0;
  for (Hypothesis& h : hypotheses) sum += h.weight = std::exp(h.weight - best);

  mean_.assign(n, 0);
  second_.assign(n * n, 0);
  for (const Hypothesis& h : hypotheses) {
    const double weight = h.weight / sum;
    const std::vector<double> covariance = Inverse(h.cholesky, n);
    residual_sigma_ += weight * h.residual_sigma;
    second_scale_ += weight * h.prior_scale * h.prior_scale;
    second_residual_ += weight * h.residual_sigma * h.residual_sigma;
    for (std::size_t a = 0; a < n; ++a) {
      mean_[a] += weight * h.mean[a];
      for (std::size_t b = 0; b < n; ++b)
        second_[a * n + b] += weight * (covariance[a * n + b] + h.mean[a] * h.mean[b]);
    }
  }
}

Correction Recalibration::For(const ParallelPlan& plan) const {
  const std::size_t n = mean_.size();
  const Row row = RowOf(plan);
  double mean = 0;
  double second = second_residual_ + (row.known_layout ? 0 : second_scale_ * kFeatureSigma * kFeatureSigma);
  for (const auto& [a, at_a] : row.effects) {
    mean += at_a * mean_[a];
    for (const auto& [b, at_b] : row.effects) second += at_a * at_b * second_[a * n + b];
  }
  // A plan's own effect always remains; rounding must not reduce the variance below it.
  return {mean, std::sqrt(std::max(second - mean * mean, second_residual_))};
}

}  // namespace autocfg
