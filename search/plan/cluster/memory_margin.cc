#include "search/plan/cluster/memory_margin.h"

#include <cmath>

#include "fmt/format.h"

namespace autocfg {

double DefaultMemoryMargin(const ClusterSpec& cluster) {
  if (cluster.local) return 0;
  return cluster.engine.memory_error > 0 ? cluster.engine.memory_error : kDescribedMemoryMargin;
}

absl::Status CheckMemoryMargin(double margin) {
  if (margin >= 0 && margin < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("memory_margin is {}; it must be a fraction from 0 to below 1, such as 0.05", margin));
}

std::int64_t UsableBytes(std::int64_t capacity_bytes, double margin) {
  if (margin == 0) return capacity_bytes;  // exact, however large
  return static_cast<std::int64_t>(std::floor(static_cast<double>(capacity_bytes) * (1 - margin)));
}

std::string MarginText(double margin) { return fmt::format("{:g}%", 100 * margin); }

}  // namespace autocfg
