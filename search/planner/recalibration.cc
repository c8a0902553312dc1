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
    0.03;  // an estimate: messages that overlap take time of the computing cores
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
  std::vector<double> cholesky;  // lower triangle of the covariance, n x n by rows
  std::vector<double> alpha;     // covariance^-1 y
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

Recalibration::Features Recalibration::FeaturesOf(const ParallelPlan& plan) const {
  const auto log2 = [](std::int64_t size) { return std::log2(static_cast<double>(size)); };
  return {{plan.tp, plan.pp, plan.dp},
          plan.schedule,
          plan.split == SplitMode::kEven,
          SplitsSequence(plan),
          OverlapsMessages(plan),
          RecomputedShare(plan, layers_),
          {log2(plan.micro_batch), log2(plan.tp), log2(plan.pp), log2(plan.dp), log2(plan.virtual_stages)}};
}

double Recalibration::Covariance(const Features& a, const Features& b) {
  const double recompute = a.recomputed * b.recomputed + (1 - a.recomputed) * (1 - b.recomputed);
  const double same = (a.layout == b.layout ? 1 : 0) + (a.schedule == b.schedule ? 1 : 0) + recompute;
  double sum =
      kGlobalSigma * kGlobalSigma + kFeatureSigma * kFeatureSigma * (same + a.slopes[0] * b.slopes[0]);
  if (a.even == b.even) sum += kSplitSigma * kSplitSigma;
  if (a.splits_sequence == b.splits_sequence) sum += kSequenceSigma * kSequenceSigma;
  if (a.overlaps_messages == b.overlaps_messages) sum += kMessagesSigma * kMessagesSigma;
  for (std::size_t i = 1; i < a.slopes.size(); ++i)
    sum += kAxisSlopeSigma * kAxisSlopeSigma * a.slopes[i] * b.slopes[i];
  return sum;
}

Recalibration::Recalibration(std::int64_t layers, const std::vector<RatioObservation>& observations)
    : layers_(layers) {
  const std::size_t n = observations.size();
  for (const RatioObservation& o : observations) features_.push_back(FeaturesOf(o.plan));
  std::vector<double> prior(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) prior[i * n + j] = Covariance(features_[i], features_[j]);
  }

  std::vector<Hypothesis> hypotheses;
  double best = -std::numeric_limits<double>::infinity();
  for (double residual : kResidualSigmas) {
    for (double scale : kPriorScales) {
      Hypothesis h{
          .residual_sigma = residual, .prior_scale = scale, .weight = 0, .cholesky = prior, .alpha = {}};
      for (double& c : h.cholesky) c *= scale * scale;
      for (std::size_t i = 0; i < n; ++i) {
        const double noise = observations[i].noise_sigma;
        h.cholesky[i * n + i] += residual * residual + noise * noise;
        h.alpha.push_back(observations[i].log_ratio);
      }
      Cholesky(h.cholesky, n);
      SolveLower(h.cholesky, h.alpha);
      double log_likelihood = LogPrior(residual, scale);
      for (std::size_t i = 0; i < n; ++i) {
        log_likelihood -= h.alpha[i] * h.alpha[i] / 2 + std::log(h.cholesky[i * n + i]);
      }
      SolveUpper(h.cholesky, h.alpha);
      h.weight = log_likelihood;
      best = std::max(best, log_likelihood);
      hypotheses.push_back(std::move(h));
    }
  }
  // Hypotheses below a hundredth of the best weight have no visible effect.
  std::erase_if(hypotheses, [&](const Hypothesis& h) { return h.weight < best - std::log(100.0); });
  double sum = 0;
  for (Hypothesis& h : hypotheses) sum += h.weight = std::exp(h.weight - best);

  alpha_.assign(n, 0);
  second_.assign(n * n, 0);
  for (Hypothesis& h : hypotheses) {
    const double weight = h.weight / sum, scale = h.prior_scale * h.prior_scale;
    const std::vector<double> inverse = Inverse(h.cholesky, n);
    residual_sigma_ += weight * h.residual_sigma;
    second_own_ += weight * scale;
    second_residual_ += weight * h.residual_sigma * h.residual_sigma;
    for (std::size_t i = 0; i < n; ++i) {
      alpha_[i] += weight * scale * h.alpha[i];
      for (std::size_t j = 0; j < n; ++j)
        second_[i * n + j] += weight * scale * scale * (inverse[i * n + j] - h.alpha[i] * h.alpha[j]);
    }
  }
}

Correction Recalibration::For(const ParallelPlan& plan) const {
  const Features features = FeaturesOf(plan);
  const std::size_t n = features_.size();
  std::vector<double> k(n);
  for (std::size_t i = 0; i < n; ++i) k[i] = Covariance(features, features_[i]);
  double mean = 0, explained = 0;
  for (std::size_t i = 0; i < n; ++i) {
    mean += k[i] * alpha_[i];
    double row = 0;
    for (std::size_t j = 0; j < n; ++j) row += second_[i * n + j] * k[j];
    explained += k[i] * row;
  }
  // A plan's own effect always remains; rounding must not reduce the variance below it.
  const double variance =
      second_own_ * Covariance(features, features) + second_residual_ - explained - mean * mean;
  return {mean, std::sqrt(std::max(variance, second_residual_))};
}

}  // namespace autocfg
