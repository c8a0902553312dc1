#include "search/regression/normal_equations.h"

#include "Eigen/Cholesky"

namespace autocfg {

NormalEquations::NormalEquations(Eigen::Index effects)
    : upper_(Eigen::MatrixXd::Zero(effects, effects)), right_(Eigen::VectorXd::Zero(effects)) {}

void NormalEquations::Add(const EffectRow& row, double y, double weight) {
  for (const auto& [a, at_a] : row) {
    right_(a) += weight * at_a * y;
    for (const auto& [b, at_b] : row) {
      if (a <= b) upper_(a, b) += weight * at_a * at_b;
    }
  }
}

void NormalEquations::AddPrior(Eigen::Index first, const Eigen::MatrixXd& precision,
                               const Eigen::VectorXd& pull) {
  upper_.block(first, first, precision.rows(), precision.cols()) += precision;
  right_.segment(first, pull.size()) += pull;
}

void NormalEquations::AddPrior(Eigen::Index first, const Eigen::VectorXd& precision) {
  upper_.diagonal().segment(first, precision.size()) += precision;
}

Eigen::MatrixXd NormalEquations::Precision() const { return upper_.selfadjointView<Eigen::Upper>(); }

EffectPosterior NormalEquations::Solve() const {
  const Eigen::LLT<Eigen::MatrixXd, Eigen::Upper> solver(upper_);
  EffectPosterior posterior;
  posterior.mean = solver.solve(right_);
  posterior.covariance = solver.solve(Eigen::MatrixXd::Identity(upper_.rows(), upper_.cols()));
  posterior.log_determinant = 2 * solver.matrixLLT().diagonal().array().log().sum();
  posterior.explained = right_.dot(posterior.mean);
  return posterior;
}

}  // namespace autocfg
