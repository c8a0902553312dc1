#include <algorithm>
#include <array>
#include <limits>

#include "search/cost/op_times/compute_model.h"

namespace autocfg {
namespace {

// A tile of C, and the fraction of the rate it reaches. Operands are read again for each tile, so smaller
// tiles wait for shared memory. The fractions are estimates that nothing was fitted to. A wrong one moves the
// times of small products only: large ones fill the multiprocessors with tiles of the full rate, and the
// device's share of the peak (efficiency.matmul) is of those.
struct Tile {
  std::int64_t rows;
  std::int64_t columns;
  double rate;
};
constexpr std::array<Tile, 5> kTiles = {
    {{128, 256, 1.0}, {256, 128, 1.0}, {128, 128, 0.9}, {64, 128, 0.7}, {64, 64, 0.55}}};
constexpr std::array<std::int64_t, 4> kTileSplits = {1, 2, 4, 8};
constexpr double kPartialSumBytes = 8;  // a four-byte partial sum, written and read

constexpr std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

double MatmulSeconds(const MatmulDevice& device, const MatmulShape& shape, double bytes) {
  const auto [batch, m, n, k] = shape;
  const double depth = static_cast<double>(k);
  const double outputs = static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n);
  const double traffic = bytes / device.bytes_per_s;
  if (device.multiprocessors == 0)
    return std::max(2 * outputs * (depth + device.k_half) / device.flops_per_s, traffic);

  const double per_multiprocessor = device.flops_per_s / static_cast<double>(device.multiprocessors);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const std::int64_t tiles = batch * CeilDivide(m, tile.rows) * CeilDivide(n, tile.columns);
    const double area = static_cast<double>(tile.rows * tile.columns);
    for (const std::int64_t split : kTileSplits) {
      const auto waves = static_cast<double>(CeilDivide(tiles * split, device.multiprocessors));
      const double tile_seconds =
          2 * area * (depth / static_cast<double>(split) + device.k_half) / (per_multiprocessor * tile.rate);
      const double partial_sums =
          split == 1 ? 0 : static_cast<double>(split) * outputs * kPartialSumBytes / device.bytes_per_s;
      best = std::min(best, waves * tile_seconds + partial_sums);
    }
  }
  return std::max(best, traffic);
}

}  // namespace autocfg
