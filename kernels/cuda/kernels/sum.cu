#include <algorithm>

#include "kernels/cuda/kernels/sum.h"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

// With fewer rows per thread than this, another partial sum does not pay off.
constexpr std::int64_t kFewestRows = 32;

// Sums the rows of grid row blockIdx.y into its row of partials, or directly into the sums if there is only
// one grid row.
template <typename T, typename S, int N>
__global__ void __launch_bounds__(kTileThreads)
    ColumnSumKernel(std::int64_t rows, std::int64_t width, const T* x, float* partials, S* sums, bool add) {
  float* shared = reinterpret_cast<float*>(SharedMemory());  // [blockDim.y, blockDim.x, N]
  const std::int64_t column = ColumnOf() * N, step = RowStep();
  float total[N] = {};
  if (column < width) {
    for (std::int64_t first = FirstRow(); first < rows; first += kTileRows * step) {
      Vec<T, N> values[kTileRows] = {};
#pragma unroll
      for (int k = 0; k < kTileRows; ++k) {
        const std::int64_t row = first + k * step;
        if (row < rows) values[k] = Load<N>(x + row * width + column);
      }
#pragma unroll
      for (int k = 0; k < kTileRows; ++k) {
        float row[N];
        Unpack(values[k], row);
#pragma unroll
        for (int i = 0; i < N; ++i) total[i] += row[i];
      }
    }
  }
  const int threads = static_cast<int>(blockDim.x);
  float* own = shared + (static_cast<int>(threadIdx.y) * threads + static_cast<int>(threadIdx.x)) * N;
#pragma unroll
  for (int i = 0; i < N; ++i) own[i] = total[i];
  __syncthreads();
  if (threadIdx.y > 0 || column >= width) return;
  for (unsigned y = 1; y < blockDim.y; ++y) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      total[i] += shared[(static_cast<int>(y) * threads + static_cast<int>(threadIdx.x)) * N + i];
  }
  if (gridDim.y > 1) {
    StoreSums(partials + blockIdx.y * width + column, total);
  } else if (add) {
    AddSums(sums + column, total);
  } else {
    StoreSums(sums + column, total);
  }
}

constexpr int kPartsAtOnce = 4;  // loads that a thread of AddPartialsKernel has in flight

// Blocks of 32 columns; thread row y of 32 adds every 32nd part. Grid row 1 adds the second set.
template <typename S>
__global__ void __launch_bounds__(kWarp* kWarp)
    AddPartialsKernel(std::int64_t parts, std::int64_t width, const float* partials, PartialSums<S> to,
                      bool add) {
  __shared__ float shared[kWarp][kWarp + 1];
  const std::int64_t column = ColumnOf();
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  S* sums = blockIdx.y == 0 ? to.first : to.second;
  const float* from = partials + blockIdx.y * parts * width + column;
  float totals[kPartsAtOnce] = {};
  if (column < width) {
    for (std::int64_t first = y; first < parts; first += kPartsAtOnce * kWarp) {
#pragma unroll
      for (int k = 0; k < kPartsAtOnce; ++k) {
        const std::int64_t part = first + k * kWarp;
        if (part < parts) totals[k] += from[part * width];
      }
    }
  }
  float total = 0;
#pragma unroll
  for (int k = 0; k < kPartsAtOnce; ++k) total += totals[k];
  shared[y][x] = total;
  __syncthreads();
  // Each warp adds the 32 sums of one column.
  total = WarpReduce(shared[x][y], Sum{});
  const std::int64_t mine = std::int64_t{blockIdx.x} * kWarp + y;
  if (x == 0 && mine < width) sums[mine] = FromFloat<S>(add ? ToFloat(sums[mine]) + total : total);
}

constexpr int kAddSumThreads = 512;
constexpr int kAtOnce = 8;  // loads that a thread of AddSumKernel has in flight

__global__ void __launch_bounds__(kAddSumThreads)
    AddSumKernel(std::int64_t n, const double* partials, double* result) {
  __shared__ double shared[kWarp];
  double sums[kAtOnce] = {};
  for (std::int64_t first = threadIdx.x; first < n; first += kAtOnce * kAddSumThreads) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * kAddSumThreads < n) sums[k] += partials[first + k * kAddSumThreads];
    }
  }
  double total = 0;
  for (int k = 0; k < kAtOnce; ++k) total += sums[k];
  total = BlockReduce(total, Sum{}, 0.0, shared);
  if (threadIdx.x == 0) *result += total;
}

}  // namespace

template <typename T, typename S>
void ColumnSum(std::int64_t rows, std::int64_t width, const T* x, S* sums, bool add, Scratch& scratch,
               cudaStream_t stream) {
  WithPacks<T>(width, {x, sums}, [&]<int N>() {
    LaunchShape shape = TileShape(rows, width / N);
    shape.shared_bytes = kTileThreads * N * sizeof(float);
    const std::int64_t resident = ResidentBlocks(ColumnSumKernel<T, S, N>, kTileThreads, shape.shared_bytes);
    const std::int64_t most = std::min(rows / (kFewestRows * shape.block.y), resident / shape.grid.x);
    const std::int64_t parts = std::clamp<std::int64_t>(most, 1, 65535);
    shape.grid.y = static_cast<unsigned>(parts);
    float* partials = parts == 1 ? nullptr : scratch.Get<float>(parts * width);
    Launch(ColumnSumKernel<T, S, N>, shape, stream, rows, width, x, partials, sums, add);
    if (parts > 1) AddPartials<S>(parts, width, partials, {sums}, add, stream);
  });
}

template <typename S>
void AddPartials(std::int64_t parts, std::int64_t width, const float* partials, const PartialSums<S>& to,
                 bool add, cudaStream_t stream) {
  const unsigned sets = to.second == nullptr ? 1 : 2;
  Launch(AddPartialsKernel<S>, {dim3(CeilDiv(width, kWarp), sets), dim3(kWarp, kWarp)}, stream, parts, width,
         partials, to, add);
}

void AddSum(std::int64_t n, const double* partials, double* result, cudaStream_t stream) {
  Launch(AddSumKernel, {dim3(1), dim3(kAddSumThreads)}, stream, n, partials, result);
}

template void ColumnSum(std::int64_t, std::int64_t, const float*, float*, bool, Scratch&, cudaStream_t);
template void ColumnSum(std::int64_t, std::int64_t, const __nv_bfloat16*, float*, bool, Scratch&,
                        cudaStream_t);
template void ColumnSum(std::int64_t, std::int64_t, const __nv_bfloat16*, __nv_bfloat16*, bool, Scratch&,
                        cudaStream_t);
template void AddPartials(std::int64_t, std::int64_t, const float*, const PartialSums<float>&, bool,
                          cudaStream_t);
template void AddPartials(std::int64_t, std::int64_t, const float*, const PartialSums<__nv_bfloat16>&, bool,
                          cudaStream_t);

}  // namespace autocfg::cuda
