#include "search/plan/cluster/calibration.h"

#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;
constexpr double kLargestLog = 10;
constexpr double kLeastPriorSigma = 1e-6;  // smaller ones have squares too near 0
constexpr std::size_t kMostShapesOfBlock = 4096;
constexpr std::size_t kMostIrregularOfBlock = 64;

absl::Status Wrong(std::string_view what, std::string_view wanted) {
  return base::InvalidArgument("cluster",
                               fmt::format("calibration: {} must be {}; calibrate again", what, wanted));
}

bool IsDeviation(double value) { return std::isfinite(value) && value >= 0 && value <= kLargestLog; }

std::string Text(const BlockShape& shape) {
  return fmt::format("hidden={},seq_len={},micro_batch={},tp={}", shape.hidden, shape.seq_len,
                     shape.micro_batch, shape.tp);
}

bool AreSizes(const BlockShape& shape) {
  for (const std::int64_t size : {shape.hidden, shape.seq_len, shape.micro_batch, shape.tp}) {
    if (size < 1 || size > kLargestSize) return false;
  }
  return true;
}

absl::Status Validate(std::string_view block, const BlockCorrections& corrections) {
  const auto wrong = [&](std::string_view what, std::string_view wanted) {
    return Wrong(fmt::format("{}: {}", block, what), wanted);
  };
  const double prior = corrections.prior_sigma;
  if (!IsDeviation(prior) || (prior > 0 && prior < kLeastPriorSigma))
    return wrong("prior_sigma", "0, or from 1e-6 to 10");
  if (!(corrections.own >= 0 && corrections.own <= 1)) return wrong("own", "from 0 to 1");
  if (!(corrections.octaves > 0 && corrections.octaves <= 1e6)) return wrong("octaves", "above 0");
  if (corrections.shapes.size() > kMostShapesOfBlock)
    return wrong("shapes", fmt::format("at most {}", kMostShapesOfBlock));
  std::set<BlockShape> seen;
  for (const ShapeCorrection& correction : corrections.shapes) {
    if (!AreSizes(correction.shape)) return wrong("a shape's size", "from 1 to 2^40");
    if (!(std::abs(correction.log_factor) <= kLargestLog)) return wrong("log_factor", "from -10 to 10");
    if (!IsDeviation(correction.sigma)) return wrong("sigma", "from 0 to 10");
    if (!seen.insert(correction.shape).second)
      return wrong("the shape " + Text(correction.shape), "named once");
  }
  if (corrections.irregular.size() > kMostIrregularOfBlock)
    return wrong("irregular", fmt::format("at most {}", kMostIrregularOfBlock));
  std::set<std::pair<BlockShape, bool>> groups;
  for (const IrregularShapes& group : corrections.irregular) {
    if (!AreSizes(group.shape)) return wrong("an irregular shape's size", "from 1 to 2^40");
    if (group.all_micro_batches && group.shape.micro_batch != 1)
      return wrong("the micro_batch of an irregular shape with all_micro_batches", "1");
    if (!IsDeviation(group.sigma)) return wrong("an irregular shape's sigma", "from 0 to 10");
    if (!groups.insert({group.shape, group.all_micro_batches}).second)
      return wrong("the irregular shape " + Text(group.shape), "named once");
  }
  return absl::OkStatus();
}

}  // namespace

bool IrregularShapes::Holds(BlockShape other) const {
  if (all_micro_batches) other.micro_batch = 1;
  return other == shape;
}

absl::Status Validate(const Calibration& calibration) {
  if (calibration.measurements < 0) return Wrong("measurements", "at least 0");
  if (!IsDeviation(calibration.one_node_sigma)) return Wrong("one_node_sigma", "from 0 to 10");
  if (!IsDeviation(calibration.many_nodes_sigma)) return Wrong("many_nodes_sigma", "from 0 to 10");
  for (const FittedFigure& figure : calibration.figures) {
    if (!std::isfinite(figure.prior) || !std::isfinite(figure.value) || !IsDeviation(figure.sigma))
      return Wrong("figures", "finite, with deviations from 0 to 10");
  }
  AUTOCFG_RETURN_IF_ERROR(Validate("layers", calibration.layers));
  return Validate("output_layers", calibration.output_layers);
}

}  // namespace autocfg
