#include "search/planner/recalibration.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace autocfg {
namespace {

constexpr double kGlobalSigma = 0.2;
constexpr double kFeatureSigma = 0.1;
constexpr double kAxisSlopeSigma = 0.05;
constexpr std::array<double, 6> kResidualSigmas = {0.02, 0.03, 0.045, 0.07, 0.1, 0.15};
constexpr std::array<double, 3> kPriorScales = {0.5, 1, 2.5};

// Priors of the grid: log-normal around 5% and around 1.
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

}  // namespace

Recalibration::Features Recalibration::FeaturesOf(const ParallelPlan& plan) {
  const auto log2 = [](std::int64_t size) { return std::log2(static_cast<double>(size)); };
  return {{plan.tp, plan.pp, plan.dp},
          plan.schedule,
          plan.recompute,
          {log2(plan.micro_batch), log2(plan.tp), log2(plan.pp), log2(plan.dp)}};
}

double Recalibration::Covariance(const Features& a, const Features& b) {
  const int same = (a.layout == b.layout) + (a.schedule == b.schedule) + (a.recompute == b.recompute);
  double sum =
      kGlobalSigma * kGlobalSigma + kFeatureSigma * kFeatureSigma * (same + a.slopes[0] * b.slopes[0]);
  for (std::size_t i = 1; i < a.slopes.size(); ++i)
    sum += kAxisSlopeSigma * kAxisSlopeSigma * a.slopes[i] * b.slopes[i];
  return sum;
}

Recalibration::Recalibration(const std::vector<RatioObservation>& observations) {
  const std::size_t n = observations.size();
  for (const RatioObservation& o : observations) features_.push_back(FeaturesOf(o.plan));
  std::vector<double> prior(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) prior[i * n + j] = Covariance(features_[i], features_[j]);
  }

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
      hypotheses_.push_back(std::move(h));
    }
  }
  // Those below a hundredth of the best change nothing that shows.
  std::erase_if(hypotheses_, [&](const Hypothesis& h) { return h.weight < best - std::log(100.0); });
  double sum = 0;
  for (Hypothesis& h : hypotheses_) sum += h.weight = std::exp(h.weight - best);
  for (Hypothesis& h : hypotheses_) h.weight /= sum;
}

Correction Recalibration::For(const ParallelPlan& plan) const {
  const Features features = FeaturesOf(plan);
  const std::size_t n = features_.size();
  std::vector<double> prior(n);
  for (std::size_t i = 0; i < n; ++i) prior[i] = Covariance(features, features_[i]);
  const double own = Covariance(features, features);

  double mean = 0, square = 0;
  std::vector<double> k(n);
  for (const Hypothesis& h : hypotheses_) {
    const double scale = h.prior_scale * h.prior_scale;
    double m = 0;
    for (std::size_t i = 0; i < n; ++i) {
      k[i] = prior[i] * scale;
      m += k[i] * h.alpha[i];
    }
    SolveLower(h.cholesky, k);
    double variance = own * scale;
    for (double x : k) variance -= x * x;
    variance = std::max(0.0, variance) + h.residual_sigma * h.residual_sigma;
    mean += h.weight * m;
    square += h.weight * (variance + m * m);
  }
  return {mean, std::sqrt(std::max(0.0, square - mean * mean))};
}

double Recalibration::residual_sigma() const {
  double mean = 0;
  for (const Hypothesis& h : hypotheses_) mean += h.weight * h.residual_sigma;
  return mean;
}

}  // namespace autocfg
