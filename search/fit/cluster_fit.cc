#include "search/fit/cluster_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "Eigen/Cholesky"
#include "Eigen/Core"
#include "base/statistics.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"
#include "search/cost/shape_corrections.h"
#include "search/fit/fitted_figures.h"
#include "search/fit/irregular_shapes.h"
#include "search/plan/rank_mesh.h"
#include "search/predict/predict_plan.h"
#include "search/predict/prediction_interval.h"
#include "search/regression/normal_equations.h"

namespace autocfg {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kDegreesOfFreedom = 4;  // of the robust loss
constexpr double kLeastSigma = 0.001;    // of measured steps: clocks and schedulers
constexpr double kFirstSigma = 0.1;
constexpr double kExactSigma = 0.03;  // of a fit that takes no step for an outlier
// Beyond it, a fit does not explain a step.
constexpr double kUnexplained = 0.1;
// The deviations of shapes that are tried, over those given.
constexpr std::array kShapePriorScales = {1.0, 0.5, 0.25, 0.1};
constexpr double kHopeless = 100;           // so much less evidence: no smaller scale is tried
constexpr double kLeastUnseenScale = 0.25;  // of shapes that were not measured
constexpr std::size_t kMostIrregular = 5;   // groups that are tried
constexpr double kStep = 1e-4;              // of the logarithms, for derivatives
constexpr int kMostIterations = 40;
constexpr double kConverged = 1e-4;  // relative change of the objective
constexpr double kFewSteps = 30;     // fewer say little of the deviation
// A figure is known once its deviation is below this share of that before the fit.
constexpr double kKnownShare = 0.7;

BlockShape ShapeOf(const Measurement& m) {
  return {.hidden = m.model.hidden,
          .seq_len = m.workload.seq_len,
          .micro_batch = m.plan.micro_batch,
          .tp = m.plan.tp};
}

// One class of measurements, with a deviation of its own.
enum StepClass : std::size_t { kOneNode, kManyNodes, kStepClasses };
using Sigmas = std::array<double, kStepClasses>;

struct Unknowns {
  VectorXd figures;                // logarithms
  VectorXd layers, output_layers;  // log factors by shape
};

class Fit {
 public:
  Fit(const Measurements& measurements, const ShapePriors& priors)
      : measurements_(measurements), given_(priors), priors_(priors) {
    const NodeGroup& group = measurements.cluster.groups.front();
    std::map<BlockShape, std::size_t> index;
    for (const Measurement& m : measurements.rows) index.try_emplace(ShapeOf(m), 0);
    for (auto& [shape, i] : index) {
      i = shapes_.size();
      shapes_.push_back(shape);
    }
    for (const Measurement& m : measurements.rows) {
      shape_of_.push_back(index.at(ShapeOf(m)));
      class_of_.push_back(RankCount(m.plan) <= group.gpus_per_node ? kOneNode : kManyNodes);
    }
    const bool many_nodes = std::find(class_of_.begin(), class_of_.end(), kManyNodes) != class_of_.end();
    for (const FigureToFit& figure : FiguresToFit()) {
      if (many_nodes || !figure.between_nodes) figures_.push_back(&figure);
    }
    sigma_.fill(kFirstSigma);
    Resize();
  }

  absl::StatusOr<ClusterFit> Run(const std::function<bool()>& watch);

  std::size_t shapes() const { return shapes_.size(); }

 private:
  Eigen::Index N() const { return static_cast<Eigen::Index>(measurements_.rows.size()); }
  Eigen::Index F() const { return static_cast<Eigen::Index>(figures_.size()); }
  Eigen::Index S() const { return static_cast<Eigen::Index>(shapes_.size()); }

  void Resize() {
    prior_.resize(F());
    prior_precision_.resize(F());
    const NodeGroup& group = measurements_.cluster.groups.front();
    for (Eigen::Index i = 0; i < F(); ++i) {
      const FigureToFit& figure = *figures_[static_cast<std::size_t>(i)];
      prior_(i) = std::log(std::clamp(figure.get(group), figure.least, figure.most));
      prior_precision_(i) = 1 / (figure.prior_sigma * figure.prior_sigma);
    }
  }

  ClusterSpec ClusterOf(const Unknowns& x, double layer_shift, double output_shift) const {
    ClusterSpec cluster = measurements_.cluster;
    for (Eigen::Index i = 0; i < F(); ++i)
      figures_[static_cast<std::size_t>(i)]->set(cluster.groups.front(), std::exp(x.figures(i)));
    Calibration& calibration = cluster.calibration.emplace();
    calibration.layers = priors_.layers;
    calibration.output_layers = priors_.output_layers;
    for (Eigen::Index s = 0; s < S(); ++s) {
      const BlockShape& shape = shapes_[static_cast<std::size_t>(s)];
      calibration.layers.shapes.push_back({shape, x.layers(s) + layer_shift, 0});
      calibration.output_layers.shapes.push_back({shape, x.output_layers(s) + output_shift, 0});
    }
    return cluster;
  }

  // Logarithms of the predicted times.
  absl::StatusOr<VectorXd> Predict(const Unknowns& x, double layer_shift = 0, double output_shift = 0) {
    const ClusterSpec cluster = ClusterOf(x, layer_shift, output_shift);
    PredictorCache predictors;
    VectorXd logs(N());
    for (Eigen::Index i = 0; i < N(); ++i) {
      const Measurement& m = measurements_.rows[static_cast<std::size_t>(i)];
      AUTOCFG_ASSIGN_OR_RETURN(const auto predictor, predictors.Find({m.model, m.workload, cluster}));
      AUTOCFG_ASSIGN_OR_RETURN(const auto plan, predictor->Resolve(m.plan));
      logs(i) = std::log(predictor->costs().Predict(plan).step_time_s);
    }
    return logs;
  }

  VectorXd Residuals(const VectorXd& logs) const {
    VectorXd residuals(N());
    for (Eigen::Index i = 0; i < N(); ++i)
      residuals(i) = std::log(measurements_.rows[static_cast<std::size_t>(i)].step_time_s) - logs(i);
    return residuals;
  }

  // Returns the scale of a measurement's deviation to the side of the residual.
  double Scale(Eigen::Index row, double residual, const Sigmas& sigma) const {
    const StepClass c = class_of_[static_cast<std::size_t>(row)];
    return sigma[c] * (c == kManyNodes && residual > 0 ? kSlowerOverFaster : 1);
  }

  // The weight of a measurement: the inverse of its variance, less for outliers.
  double Weight(Eigen::Index row, double residual) const {
    if (!robust_) return 1 / (kExactSigma * kExactSigma);
    const double scale = Scale(row, residual, sigma_), z = residual / scale;
    return (kDegreesOfFreedom + 1) / (kDegreesOfFreedom + z * z) / (scale * scale);
  }

  double Objective(const Unknowns& x, const VectorXd& residuals) const {
    double sum = robust_ ? 0 : residuals.squaredNorm() / (kExactSigma * kExactSigma);
    for (Eigen::Index i = 0; robust_ && i < N(); ++i) {
      const double z = residuals(i) / Scale(i, residuals(i), sigma_);
      sum += (kDegreesOfFreedom + 1) * std::log1p(z * z / kDegreesOfFreedom);
    }
    const VectorXd moved = x.figures - prior_;
    sum += moved.cwiseAbs2().dot(prior_precision_);
    sum += x.layers.dot(layer_precision_ * x.layers);
    sum += x.output_layers.dot(output_precision_ * x.output_layers);
    return sum;
  }

  // Estimates the deviation of each class: the scale of its t distribution, by one step of
  // expectation-maximisation.
  void UpdateSigmas(const VectorXd& residuals) {
    std::array<double, kStepClasses> sum{}, count{};
    for (Eigen::Index i = 0; i < N(); ++i) {
      const std::size_t c = class_of_[static_cast<std::size_t>(i)];
      sum[c] += Weight(i, residuals(i)) * sigma_[c] * sigma_[c] * residuals(i) * residuals(i);
      count[c] += 1;
    }
    for (std::size_t c = 0; c < kStepClasses; ++c) {
      if (count[c] > 0) sigma_[c] = std::max(kLeastSigma, std::sqrt(sum[c] / count[c]));
    }
  }

  static MatrixXd CovarianceOf(const BlockCorrections& prior, const std::vector<BlockShape>& shapes) {
    const auto n = static_cast<Eigen::Index>(shapes.size());
    MatrixXd covariance(n, n);
    for (Eigen::Index i = 0; i < n; ++i) {
      for (Eigen::Index j = 0; j < n; ++j)
        covariance(i, j) =
            ShapeCovariance(prior, shapes[static_cast<std::size_t>(i)], shapes[static_cast<std::size_t>(j)]);
      covariance(i, i) += OwnVariance(prior, shapes[static_cast<std::size_t>(i)]);
    }
    return covariance;
  }

  // `scale`: of the deviations of shapes, over those given.
  void UpdatePriors(double scale, const std::vector<IrregularShapes>& irregular) {
    priors_.layers.prior_sigma = scale * given_.layers.prior_sigma;
    priors_.output_layers.prior_sigma = scale * given_.output_layers.prior_sigma;
    const MatrixXd identity = MatrixXd::Identity(S(), S());
    priors_.layers.irregular = irregular;
    layer_precision_ = CovarianceOf(priors_.layers, shapes_).llt().solve(identity);
    output_precision_ = CovarianceOf(priors_.output_layers, shapes_).llt().solve(identity);
  }

  // The derivatives of the predicted logarithms.
  struct Derivatives {
    MatrixXd figures;                // [N, F]
    VectorXd layers, output_layers;  // [N]: to the factor of the measurement's own shape
  };
  absl::StatusOr<Derivatives> DerivativesAt(const Unknowns& x, const VectorXd& logs,
                                            const std::function<bool()>& watch) {
    Derivatives d{MatrixXd(N(), F()), VectorXd(N()), VectorXd(N())};
    for (Eigen::Index i = 0; i < F(); ++i) {
      if (watch && !watch()) return absl::CancelledError("stopped");
      Unknowns moved = x;
      // Away from the bound.
      const double step = x.figures(i) + kStep > Most(i) ? -kStep : kStep;
      moved.figures(i) += step;
      AUTOCFG_ASSIGN_OR_RETURN(const auto there, Predict(moved));
      d.figures.col(i) = (there - logs) / step;
    }
    AUTOCFG_ASSIGN_OR_RETURN(const auto layers, Predict(x, kStep, 0));
    AUTOCFG_ASSIGN_OR_RETURN(const auto outputs, Predict(x, 0, kStep));
    d.layers = (layers - logs) / kStep;
    d.output_layers = (outputs - logs) / kStep;
    return d;
  }

  double Least(Eigen::Index i) const { return std::log(figures_[static_cast<std::size_t>(i)]->least); }
  double Most(Eigen::Index i) const { return std::log(figures_[static_cast<std::size_t>(i)]->most); }

  // How a measurement depends on the unknowns: on the figures, then on the factors of its own shape's layers
  // and output layer.
  EffectRow RowOf(const Derivatives& d, Eigen::Index i) const {
    const auto shape = static_cast<Eigen::Index>(shape_of_[static_cast<std::size_t>(i)]);
    EffectRow row;
    row.reserve(static_cast<std::size_t>(F()) + 2);
    for (Eigen::Index f = 0; f < F(); ++f) row.emplace_back(f, d.figures(i, f));
    row.emplace_back(F() + shape, d.layers(i));
    row.emplace_back(F() + S() + shape, d.output_layers(i));
    return row;
  }

  // The regression of the residuals on changes of the unknowns: its precision is half the second derivative
  // of the objective, by Gauss and Newton, and its right side half the downhill slope.
  NormalEquations Normal(const Unknowns& x, const VectorXd& residuals, const Derivatives& d) const {
    NormalEquations equations(F() + 2 * S());
    for (Eigen::Index i = 0; i < N(); ++i) equations.Add(RowOf(d, i), residuals(i), Weight(i, residuals(i)));
    equations.AddPrior(0, prior_precision_.asDiagonal(), prior_precision_.cwiseProduct(prior_ - x.figures));
    equations.AddPrior(F(), layer_precision_, -layer_precision_ * x.layers);
    equations.AddPrior(F() + S(), output_precision_, -output_precision_ * x.output_layers);
    return equations;
  }

  Unknowns Moved(const Unknowns& x, const VectorXd& by) const {
    Unknowns moved = x;
    for (Eigen::Index i = 0; i < F(); ++i)
      moved.figures(i) = std::clamp(x.figures(i) + std::clamp(by(i), -1.0, 1.0), Least(i), Most(i));
    moved.layers += by.segment(F(), S());
    moved.output_layers += by.tail(S());
    return moved;
  }

  // One fit, and the priors that it was made with.
  struct Candidate {
    Unknowns x;
    VectorXd residuals;
    Derivatives derivatives;
    Sigmas sigma{};
    double scale = 1;  // of the deviations of shapes
    std::vector<IrregularShapes> irregular;
    double evidence = 0;
  };

  double Evidence(const Unknowns& x, const VectorXd& residuals, const Derivatives& d) const;
  absl::StatusOr<Candidate> FitFrom(const Candidate& begin, double scale,
                                    const std::vector<IrregularShapes>& irregular,
                                    const std::function<bool()>& watch);
  absl::StatusOr<Candidate> WithIrregular(Candidate fit, const std::function<bool()>& watch);
  std::vector<StepDeviation> DeviationsOf(const Candidate& fit) const;
  // Moves `x` to a minimum nearby.
  absl::Status Minimise(Unknowns& x, const std::function<bool()>& watch);
  // As FitFrom with no irregular shapes; but where noise explains the steps, an exact fit is tried too.
  absl::StatusOr<Candidate> FirstFit(const Candidate& begin, double scale,
                                     const std::function<bool()>& watch);
  ClusterFit ResultOf(const Unknowns& x, const VectorXd& residuals, const Derivatives& d) const;

  const Measurements& measurements_;
  const ShapePriors given_;
  ShapePriors priors_;
  std::vector<BlockShape> shapes_;
  std::vector<std::size_t> shape_of_;
  std::vector<StepClass> class_of_;
  std::vector<const FigureToFit*> figures_;
  VectorXd prior_, prior_precision_;
  MatrixXd layer_precision_, output_precision_;
  Sigmas sigma_;
  bool robust_ = true;  // else no step is an outlier, and the deviation of all is kExactSigma
};

absl::Status Fit::Minimise(Unknowns& x, const std::function<bool()>& watch) {
  auto logs = Predict(x);
  if (!logs.ok()) return logs.status();
  VectorXd residuals = Residuals(*logs);
  double damping = 1e-3;
  for (int iteration = 0; iteration < kMostIterations; ++iteration) {
    if (robust_) UpdateSigmas(residuals);
    const double before = Objective(x, residuals);
    AUTOCFG_ASSIGN_OR_RETURN(const auto d, DerivativesAt(x, *logs, watch));
    const NormalEquations equations = Normal(x, residuals, d);
    const MatrixXd a = equations.Precision();
    double after = before;
    for (int attempt = 0; attempt < 10; ++attempt) {
      MatrixXd damped = a;
      damped.diagonal() *= 1 + damping;
      const Unknowns there = Moved(x, damped.ldlt().solve(equations.right()));
      auto moved = Predict(there);
      if (!moved.ok()) return moved.status();
      const VectorXd left = Residuals(*moved);
      const double value = Objective(there, left);
      if (value < before) {
        x = there;
        logs = std::move(moved);
        residuals = left;
        after = value;
        damping = std::max(damping / 5, 1e-9);
        break;
      }
      damping *= 5;
    }
    if (before - after < kConverged * std::abs(before)) break;
  }
  return absl::OkStatus();
}

// Returns the deviation of a normal distribution whose 90% interval is that of the residuals' t distribution,
// whose scale is estimated by expectation-maximisation, or, if it is wider, the interval of the jackknife
// (Barber et al. 2021, "Predictive inference with the jackknife+", section 1): the residual of rank 0.9 (n +
// 1), the largest of fewer than 9. With few residuals, a part of a cautious one stays, unless most are
// larger.
double CoveringSigma(const std::vector<double>& residuals) {
  if (residuals.empty()) return 0;
  constexpr double kScalesOf90Percent = 2.132;  // of Student's t distribution with 4 degrees of freedom
  const auto n = static_cast<double>(residuals.size());
  double variance = kFirstSigma * kFirstSigma;
  for (int i = 0; i < 100; ++i) {
    double sum = 0;
    for (const double r : residuals)
      sum += (kDegreesOfFreedom + 1) / (kDegreesOfFreedom + r * r / variance) * r * r;
    variance = std::max(sum / n, kLeastSigma * kLeastSigma);
  }
  const double factor = kScalesOf90Percent / kSigmasOf90Percent;
  variance *= factor * factor;
  std::vector<double> sizes(residuals.size());
  std::transform(residuals.begin(), residuals.end(), sizes.begin(), [](double r) { return std::abs(r); });
  std::sort(sizes.begin(), sizes.end());
  const auto rank = std::min(sizes.size(), static_cast<std::size_t>(std::ceil(0.9 * (n + 1))));
  const double holding = sizes[rank - 1] / kSigmasOf90Percent;
  variance = std::max(variance, holding * holding);
  if (n < kFewSteps && sizes[sizes.size() / 2] <= kUnseenNodesSigma)
    variance = (n * variance + (kFewSteps - n) * kUnseenNodesSigma * kUnseenNodesSigma) / kFewSteps;
  return std::sqrt(variance);
}

ClusterFit Fit::ResultOf(const Unknowns& x, const VectorXd& residuals, const Derivatives& d) const {
  const NormalEquations equations = Normal(x, residuals, d);
  const MatrixXd covariance = equations.Solve().covariance;
  ClusterFit fit{.cluster = ClusterOf(x, 0, 0),
                 .residuals = std::vector<double>(residuals.data(), residuals.data() + residuals.size())};
  Calibration& calibration = *fit.cluster.calibration;
  calibration.measurements = N();
  // A shape that was not measured may be an irregular one, however alike the measured ones are.
  calibration.layers.prior_sigma =
      std::max(priors_.layers.prior_sigma, kLeastUnseenScale * given_.layers.prior_sigma);
  calibration.output_layers.prior_sigma =
      std::max(priors_.output_layers.prior_sigma, kLeastUnseenScale * given_.output_layers.prior_sigma);
  const NodeGroup& group = measurements_.cluster.groups.front();
  for (Eigen::Index i = 0; i < F(); ++i) {
    const FigureToFit& figure = *figures_[static_cast<std::size_t>(i)];
    const double sigma = std::sqrt(std::max(covariance(i, i), 0.0));
    calibration.figures.push_back({.name = std::string(figure.name),
                                   .prior = figure.get(group),
                                   .value = std::exp(x.figures(i)),
                                   .sigma = sigma,
                                   .known = sigma < kKnownShare * figure.prior_sigma});
  }
  // What is left of a factor's deviation with the figures as they are: a figure and the factors that make up
  // for it are known together far better than each alone.
  const Eigen::Index factors = 2 * S();
  const MatrixXd of_shapes = equations.Precision()
                                 .bottomRightCorner(factors, factors)
                                 .llt()
                                 .solve(MatrixXd::Identity(factors, factors));
  for (Eigen::Index s = 0; s < S(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const auto sigma = [&](Eigen::Index i) { return std::sqrt(std::max(of_shapes(i, i), 0.0)); };
    calibration.layers.shapes[at].sigma = sigma(s);
    calibration.output_layers.shapes[at].sigma = sigma(S() + s);
  }
  // Residuals as if each measurement had been left out: its influence on its own prediction is its leverage.
  std::array<std::vector<double>, kStepClasses> left_out;
  for (Eigen::Index i = 0; i < N(); ++i) {
    VectorXd row = VectorXd::Zero(covariance.rows());
    for (const auto& [effect, value] : RowOf(d, i)) row(effect) = value;
    const double leverage = std::min(0.9, Weight(i, residuals(i)) * row.dot(covariance * row));
    const StepClass c = class_of_[static_cast<std::size_t>(i)];
    const double residual = residuals(i) / (1 - leverage);
    left_out[c].push_back(c == kManyNodes && residual < 0 ? kSlowerOverFaster * residual : residual);
  }
  calibration.one_node_sigma = CoveringSigma(left_out[kOneNode]);
  calibration.many_nodes_sigma = CoveringSigma(left_out[kManyNodes]);
  return fit;
}

// The logarithm of the marginal likelihood, but for a constant, by Laplace's approximation around the minimum
// (Rasmussen and Williams 2006, section 5.4.1).
double Fit::Evidence(const Unknowns& x, const VectorXd& residuals, const Derivatives& d) const {
  const auto log_determinant = [](const MatrixXd& matrix) {
    return 2 * MatrixXd(matrix.llt().matrixL()).diagonal().array().log().sum();
  };
  double sum = -Objective(x, residuals) / 2 - Normal(x, residuals, d).Solve().log_determinant / 2 +
               log_determinant(layer_precision_) / 2 + log_determinant(output_precision_) / 2;
  for (const StepClass c : class_of_) sum -= std::log(sigma_[c]);
  return sum;
}

// Fits with these priors, from where another fit ended.
absl::StatusOr<Fit::Candidate> Fit::FitFrom(const Candidate& begin, double scale,
                                            const std::vector<IrregularShapes>& irregular,
                                            const std::function<bool()>& watch) {
  Candidate fit;
  fit.x = begin.x;
  fit.scale = scale;
  fit.irregular = irregular;
  sigma_ = begin.sigma;
  UpdatePriors(scale, irregular);
  AUTOCFG_RETURN_IF_ERROR(Minimise(fit.x, watch));
  AUTOCFG_ASSIGN_OR_RETURN(const auto logs, Predict(fit.x));
  AUTOCFG_ASSIGN_OR_RETURN(auto derivatives, DerivativesAt(fit.x, logs, watch));
  fit.residuals = Residuals(logs);
  fit.derivatives = std::move(derivatives);
  fit.sigma = sigma_;
  fit.evidence = Evidence(fit.x, fit.residuals, fit.derivatives) -
                 kIrregularLogOdds * static_cast<double>(irregular.size());
  return fit;
}

// From the prior, a factor that all steps share looks like noise: the deviation grows at once, and with it
// every step becomes an outlier that moves nothing. Then least squares say where the other fit begins. It is
// taken if it explains most steps, however far its figures are from the prior: no clock is that noisy.
absl::StatusOr<Fit::Candidate> Fit::FirstFit(const Candidate& begin, double scale,
                                             const std::function<bool()>& watch) {
  const auto explains = [](const Candidate& fit) {
    std::vector<double> sizes;
    for (const double r : fit.residuals) sizes.push_back(std::abs(r));
    return base::Median(sizes) <= kUnexplained;
  };
  auto fit = FitFrom(begin, scale, {}, watch);
  if (!fit.ok() || explains(*fit)) return fit;
  Candidate exact = begin;
  UpdatePriors(scale, {});
  robust_ = false;
  const absl::Status status = Minimise(exact.x, watch);
  robust_ = true;
  if (!status.ok()) return status;
  auto other = FitFrom(exact, scale, {}, watch);
  return other.ok() && !explains(*other) ? std::move(fit) : std::move(other);
}

// Makes the groups irregular that are the farthest from the fit, each if that makes the fit better.
absl::StatusOr<Fit::Candidate> Fit::WithIrregular(Candidate fit, const std::function<bool()>& watch) {
  std::vector<IrregularShapes> tried;
  while (tried.size() < kMostIrregular) {
    const std::optional<IrregularShapes> far = FarthestGroup(DeviationsOf(fit), tried);
    if (!far) break;
    tried.push_back(*far);
    std::vector<IrregularShapes> irregular = fit.irregular;
    irregular.push_back(*far);
    AUTOCFG_ASSIGN_OR_RETURN(auto next, FitFrom(fit, fit.scale, irregular, watch));
    if (next.evidence > fit.evidence) fit = std::move(next);
  }
  return fit;
}

// Returns how far the steps are from the fit.
std::vector<StepDeviation> Fit::DeviationsOf(const Candidate& fit) const {
  std::vector<StepDeviation> deviations;
  deviations.reserve(measurements_.rows.size());
  for (Eigen::Index i = 0; i < N(); ++i) {
    const double residual = fit.residuals(i), scale = Scale(i, residual, fit.sigma);
    deviations.push_back({.shape = shapes_[shape_of_[static_cast<std::size_t>(i)]],
                          .residual = residual,
                          .weight = 1 / (scale * scale)});
  }
  return deviations;
}

absl::StatusOr<ClusterFit> Fit::Run(const std::function<bool()>& watch) {
  Candidate plain;
  plain.x = {.figures = prior_, .layers = VectorXd::Zero(S()), .output_layers = VectorXd::Zero(S())};
  plain.sigma.fill(kFirstSigma);
  std::optional<Candidate> best;
  // Noisy steps say little of shapes, exact ones much: what they allow decides how far shapes may be. The
  // nearer they must be to the model, the better irregular ones show.
  for (const double scale : kShapePriorScales) {
    auto fit = best ? FitFrom(plain, scale, {}, watch) : FirstFit(plain, scale, watch);
    if (!fit.ok()) return fit.status();
    plain = *fit;
    fit = WithIrregular(*std::move(fit), watch);
    if (!fit.ok()) return fit.status();
    if (best && fit->evidence < best->evidence - kHopeless) break;
    if (!best || fit->evidence > best->evidence) best = *std::move(fit);
  }
  sigma_ = best->sigma;
  UpdatePriors(best->scale, best->irregular);
  return ResultOf(best->x, best->residuals, best->derivatives);
}

}  // namespace

absl::StatusOr<ClusterFit> FitCluster(const Measurements& measurements, const ShapePriors& priors,
                                      const std::function<bool()>& watch) {
  if (measurements.rows.empty()) return base::InvalidArgument("measurements", "there are none to fit to");
  if (measurements.rows.size() > kMostMeasurements) {
    return base::InvalidArgument("measurements", fmt::format("{} rows are too many; give at most {}",
                                                             measurements.rows.size(), kMostMeasurements));
  }
  Fit fit(measurements, priors);
  if (fit.shapes() > kMostShapes) {
    return base::InvalidArgument(
        "measurements",
        fmt::format("{} shapes of layers (hidden, seq_len, micro_batch, tp) are too many; give at most {}",
                    fit.shapes(), kMostShapes));
  }
  return fit.Run(watch);
}

}  // namespace autocfg
