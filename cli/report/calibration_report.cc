#include "cli/report/calibration_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "base/statistics.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/fit/fitted_figures.h"
#include "search/plan/cluster/calibration.h"
#include "search/predict/prediction_interval.h"

namespace autocfg::cli {
namespace {

constexpr std::size_t kMostLinesNamed = 5;
constexpr std::size_t kMostFarRows = 5;
constexpr double kUnexplained = 1.1;  // the factor by which half of the steps are off

std::string FigureTable(const std::vector<FittedFigure>& figures) {
  std::vector<std::vector<std::string>> rows = {{"figure", "fitted", "before", "90% interval"}};
  for (const FittedFigure& figure : figures) {
    rows.push_back(
        {figure.name, fmt::format("{:.4g}", figure.value), fmt::format("{:.4g}", figure.prior),
         figure.known ? fmt::format("within {:.0f}%", 100 * (std::exp(kSigmasOf90Percent * figure.sigma) - 1))
                      : std::string("not determined")});
  }
  return Table(rows);
}

// Names steps that may determine the figures that the given ones do not.
std::string UndeterminedText(const std::vector<FittedFigure>& figures) {
  std::vector<std::vector<std::string>> rows = {{"not determined", "more steps that may help"}};
  for (const FittedFigure& figure : figures) {
    if (!figure.known) rows.push_back({figure.name, std::string(FigureToFitOf(figure.name).determined_by)});
  }
  return rows.size() == 1 ? "" : "\n" + Table(rows);
}

// `faster`: the deviation of steps that are faster than predicted.
std::string SigmaLine(const char* where, double sigma, double faster) {
  if (sigma == 0) return fmt::format("  {}: none was measured\n", where);
  const auto percent = [](double s) { return 100 * std::abs(std::exp(kSigmasOf90Percent * s) - 1); };
  return faster == sigma ? fmt::format("  {}: 90% of the steps within {:.1f}%\n", where, percent(sigma))
                         : fmt::format("  {}: 90% of the steps from {:.1f}% faster to {:.1f}% slower\n",
                                       where, percent(-faster), percent(sigma));
}

std::string IrregularText(const std::vector<IrregularShapes>& groups) {
  if (groups.empty()) return "";
  std::string text = "\nirregular (layers far from the model and from all similar shapes)\n";
  for (const auto& [shape, all_micro_batches, sigma] : groups) {
    text += fmt::format(
        "  hidden={},seq_len={},tp={}, {}\n", shape.hidden, shape.seq_len, shape.tp,
        all_micro_batches ? "every micro_batch" : fmt::format("micro_batch={}", shape.micro_batch));
  }
  return text;
}

}  // namespace

std::string CalibrationReport(const Measurements& measurements, const ClusterFit& fit) {
  const Calibration& calibration = *fit.cluster.calibration;
  std::vector<double> errors;
  for (const double r : fit.residuals) errors.push_back(std::abs(std::exp(-r) - 1));
  double mean = 0;
  for (const double e : errors) mean += e / static_cast<double>(errors.size());
  std::string text = fmt::format(
      "fitted to {} measured steps of {} shapes\n"
      "their error after the fit: mean {:.2f}%, median {:.2f}%\n\n",
      calibration.measurements, calibration.layers.shapes.size(), 100 * mean, 100 * base::Median(errors));
  text += FigureTable(calibration.figures);
  text += UndeterminedText(calibration.figures);
  text += IrregularText(calibration.layers.irregular);
  text += "\nsteps (each predicted as if it had been left out)\n";
  text += SigmaLine("within a node", calibration.one_node_sigma, calibration.one_node_sigma);
  text += SigmaLine("over several nodes", calibration.many_nodes_sigma,
                    calibration.many_nodes_sigma / kSlowerOverFaster);
  std::vector<std::size_t> order(errors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const std::size_t shown = std::min(kMostFarRows, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](std::size_t a, std::size_t b) { return errors[a] > errors[b]; });
  text += "\nfarthest from the fit (predicted over measured, none left out)\n";
  for (std::size_t i = 0; i < shown; ++i) {
    text += fmt::format("  line {}: {:+.1f}%\n", measurements.rows[order[i]].line,
                        100 * (std::exp(-fit.residuals[order[i]]) - 1));
  }
  return text;
}

std::string UnexplainedText(const ClusterFit& fit) {
  std::vector<double> factors;
  for (const double r : fit.residuals) factors.push_back(std::exp(std::abs(r)));
  const double median = base::Median(factors);
  if (median < kUnexplained) return "";
  return fmt::format(
      "the fit does not explain these steps: half of them are off by a factor of {:.2f} or more; check the "
      "unit of the times, the precision, recompute and attention of the rows, and --cluster, or give "
      "--cluster a file whose figures are nearer",
      median);
}

std::string SkippedText(const Measurements& measurements) {
  constexpr std::string_view kRepetition = "it repeats";  // and another line in each
  const auto repetitions =
      std::count_if(measurements.skipped.begin(), measurements.skipped.end(),
                    [&](const SkippedRow& row) { return row.reason.starts_with(kRepetition); });
  std::map<std::string, std::vector<std::int64_t>> lines;
  for (const SkippedRow& row : measurements.skipped) {
    const bool is_one_of_many = repetitions > 1 && row.reason.starts_with(kRepetition);
    lines[is_one_of_many ? "they repeat earlier lines" : row.reason].push_back(row.line);
  }
  std::string text;
  for (auto& [reason, at] : lines) {
    const std::size_t count = at.size();
    at.resize(std::min(count, kMostLinesNamed));
    text += fmt::format("{} row{} skipped, line{} {}{}: {}\n", count, count > 1 ? "s" : "",
                        count > 1 ? "s" : "", fmt::join(at, ", "), count > at.size() ? ", ..." : "", reason);
  }
  return text;
}

}  // namespace autocfg::cli
