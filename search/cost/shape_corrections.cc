#include "search/cost/shape_corrections.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "Eigen/Cholesky"
#include "Eigen/Core"

namespace autocfg {
namespace {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// A share of the variance that keeps covariances positive where shapes are alike.
constexpr double kDistinct = 1e-6;

double Doublings(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

// Returns the sum of sigma^2 of the groups that hold both.
double IrregularVariance(const std::vector<IrregularShapes>& groups, const BlockShape& a,
                         const BlockShape& b) {
  double variance = 0;
  for (const IrregularShapes& group : groups) {
    if (group.Holds(a) && group.Holds(b)) variance += group.sigma * group.sigma;
  }
  return variance;
}

}  // namespace

double ShapeVariance(const BlockCorrections& corrections, const BlockShape& shape) {
  return corrections.prior_sigma * corrections.prior_sigma +
         IrregularVariance(corrections.irregular, shape, shape);
}

double OwnVariance(const BlockCorrections& corrections, const BlockShape& shape) {
  return corrections.prior_sigma * corrections.prior_sigma * corrections.own +
         kDistinct * ShapeVariance(corrections, shape);
}

double ShapeCovariance(const BlockCorrections& corrections, const BlockShape& a, const BlockShape& b) {
  const double distance = Doublings(a.hidden, b.hidden) + Doublings(a.seq_len, b.seq_len) +
                          Doublings(a.micro_batch, b.micro_batch) + Doublings(a.tp, b.tp);
  return corrections.prior_sigma * corrections.prior_sigma * (1 - corrections.own) *
             std::exp(-distance / corrections.octaves) +
         IrregularVariance(corrections.irregular, a, b);
}

ShapeCorrections::ShapeCorrections(const BlockCorrections& corrections) : corrections_(corrections) {
  std::vector<ShapeCorrection>& shapes = corrections_.shapes;
  if (corrections_.prior_sigma == 0) {
    shapes.clear();
    corrections_.irregular.clear();
  }
  std::sort(shapes.begin(), shapes.end(),
            [](const ShapeCorrection& a, const ShapeCorrection& b) { return a.shape < b.shape; });
  const auto n = static_cast<Eigen::Index>(shapes.size());
  if (n == 0) return;
  RowMatrix covariance(n, n);
  Eigen::VectorXd factors(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const ShapeCorrection& shape = shapes[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j < n; ++j)
      covariance(i, j) =
          ShapeCovariance(corrections_, shape.shape, shapes[static_cast<std::size_t>(j)].shape);
    covariance(i, i) += OwnVariance(corrections_, shape.shape) + shape.sigma * shape.sigma;
    factors(i) = shape.log_factor;
  }
  const Eigen::LLT<RowMatrix> solver(covariance);
  const Eigen::VectorXd weights = solver.solve(factors);
  weights_.assign(weights.data(), weights.data() + n);
  const RowMatrix lower = solver.matrixL();
  factor_.assign(lower.data(), lower.data() + n * n);
}

LogCorrection ShapeCorrections::At(const BlockShape& shape) const {
  const std::vector<ShapeCorrection>& shapes = corrections_.shapes;
  if (shapes.empty()) return {0, std::sqrt(ShapeVariance(corrections_, shape))};
  const auto found =
      std::lower_bound(shapes.begin(), shapes.end(), shape,
                       [](const ShapeCorrection& a, const BlockShape& b) { return a.shape < b; });
  if (found != shapes.end() && found->shape == shape) return {found->log_factor, found->sigma};
  const auto n = static_cast<Eigen::Index>(shapes.size());
  Eigen::VectorXd covariance(n);
  for (Eigen::Index i = 0; i < n; ++i)
    covariance(i) = ShapeCovariance(corrections_, shape, shapes[static_cast<std::size_t>(i)].shape);
  const double mean = covariance.dot(Eigen::Map<const Eigen::VectorXd>(weights_.data(), n));
  const Eigen::Map<const RowMatrix> lower(factor_.data(), n, n);
  const Eigen::VectorXd whitened = lower.triangularView<Eigen::Lower>().solve(covariance);
  const double variance = ShapeVariance(corrections_, shape) - whitened.squaredNorm();
  return {mean, std::sqrt(std::max(variance, 0.0))};
}

ShapeBasis::ShapeBasis(const BlockCorrections& prior, std::vector<BlockShape> measured)
    : prior_(prior), measured_(std::move(measured)) {
  std::sort(measured_.begin(), measured_.end());
  measured_.erase(std::unique(measured_.begin(), measured_.end()), measured_.end());
  const auto n = static_cast<Eigen::Index>(measured_.size());
  if (n == 0) return;
  RowMatrix covariance(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j)
      covariance(i, j) = ShapeCovariance(prior_, measured_[static_cast<std::size_t>(i)],
                                         measured_[static_cast<std::size_t>(j)]);
    covariance(i, i) += OwnVariance(prior_, measured_[static_cast<std::size_t>(i)]);
  }
  const RowMatrix lower = covariance.llt().matrixL();
  factor_.assign(lower.data(), lower.data() + n * n);
}

ShapeBasis::Coordinates ShapeBasis::At(const BlockShape& shape) const {
  const auto n = static_cast<Eigen::Index>(measured_.size());
  const double prior = ShapeVariance(prior_, shape);
  if (n == 0) return {.measured = {}, .own_variance = prior};
  const Eigen::Map<const RowMatrix> lower(factor_.data(), n, n);
  Coordinates at{.measured = std::vector<double>(measured_.size())};
  Eigen::Map<Eigen::VectorXd> whitened(at.measured.data(), n);
  const auto found = std::lower_bound(measured_.begin(), measured_.end(), shape);
  if (found != measured_.end() && *found == shape) {
    whitened = lower.row(found - measured_.begin());
    return at;
  }
  for (Eigen::Index i = 0; i < n; ++i)
    whitened(i) = ShapeCovariance(prior_, shape, measured_[static_cast<std::size_t>(i)]);
  lower.triangularView<Eigen::Lower>().solveInPlace(whitened);
  at.own_variance = std::max(prior - whitened.squaredNorm(), 0.0);
  return at;
}

}  // namespace autocfg
