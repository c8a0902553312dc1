#include <algorithm>
#include <bit>

#include "kernels/cuda/kernels/token_sort.h"
#include "kernels/cuda/primitives/launch.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kTile = 4096;  // keys that one block sorts: 32 KiB of shared memory
constexpr int kThreads = 1024;

// Orders key i and the key at `distance` above it.
__device__ void CompareAt(std::uint64_t* keys, std::int64_t i, std::int64_t distance, bool ascending) {
  const std::uint64_t a = keys[i], b = keys[i + distance];
  if ((a > b) == ascending) {
    keys[i] = b;
    keys[i + distance] = a;
  }
}

// Returns the lower index of pair `pair` at this distance.
__device__ std::int64_t LowerOf(std::int64_t pair, std::int64_t distance) {
  return 2 * pair - (pair & (distance - 1));
}

// Does the comparisons at distances within a tile, for merges into runs of `run` keys; every other run is
// descending.
__device__ void MergeInTile(std::uint64_t* tile, std::int64_t base, std::int64_t run) {
  for (std::int64_t distance = run / 2 < kTile / 2 ? run / 2 : kTile / 2; distance > 0; distance /= 2) {
    for (int pair = static_cast<int>(threadIdx.x); pair < kTile / 2; pair += kThreads) {
      const std::int64_t i = LowerOf(pair, distance);
      CompareAt(tile, i, distance, ((base + i) & run) == 0);
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads)
    SortTileKernel(std::int64_t rows, std::int64_t vocab, std::int64_t start, const std::int32_t* tokens,
                   std::uint64_t* keys) {
  std::uint64_t* tile = reinterpret_cast<std::uint64_t*>(SharedMemory());
  const std::int64_t base = std::int64_t{blockIdx.x} * kTile;
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) {
    const std::int64_t t = base + i, row = t < rows ? tokens[t] - start : -1;
    tile[i] = row >= 0 && row < vocab ? static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint64_t>(t)
                                      : ~std::uint64_t{0};
  }
  __syncthreads();
  for (std::int64_t run = 2; run <= kTile; run *= 2) MergeInTile(tile, base, run);
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) keys[base + i] = tile[i];
}

__global__ void __launch_bounds__(kThreads)
    CompareKernel(std::int64_t distance, std::int64_t run, std::uint64_t* keys) {
  const std::int64_t i = LowerOf(std::int64_t{blockIdx.x} * kThreads + threadIdx.x, distance);
  CompareAt(keys, i, distance, (i & run) == 0);
}

__global__ void __launch_bounds__(kThreads) MergeTileKernel(std::int64_t run, std::uint64_t* keys) {
  std::uint64_t* tile = reinterpret_cast<std::uint64_t*>(SharedMemory());
  const std::int64_t base = std::int64_t{blockIdx.x} * kTile;
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) tile[i] = keys[base + i];
  __syncthreads();
  MergeInTile(tile, base, run);
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) keys[base + i] = tile[i];
}

}  // namespace

std::int64_t SortedTokens(std::int64_t rows) {
  return std::max<std::int64_t>(kTile,
                                static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows))));
}

void SortTokens(std::int64_t rows, std::int64_t vocab, std::int64_t start, const std::int32_t* tokens,
                std::uint64_t* sorted, cudaStream_t stream) {
  const std::int64_t n = SortedTokens(rows);
  const LaunchShape tiles{dim3(static_cast<unsigned>(n / kTile)), dim3(kThreads),
                          kTile * sizeof(std::uint64_t)};
  const LaunchShape pairs{dim3(static_cast<unsigned>(n / 2 / kThreads)), dim3(kThreads)};
  Launch(SortTileKernel, tiles, stream, rows, vocab, start, tokens, sorted);
  for (std::int64_t run = 2 * kTile; run <= n; run *= 2) {
    for (std::int64_t distance = run / 2; distance >= kTile; distance /= 2)
      Launch(CompareKernel, pairs, stream, distance, run, sorted);
    Launch(MergeTileKernel, tiles, stream, run, sorted);
  }
}

}  // namespace autocfg::cuda
