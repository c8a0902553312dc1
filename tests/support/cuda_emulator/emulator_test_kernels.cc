#include "tests/support/cuda_emulator/emulator_test_kernels.h"

#include <cuda_bf16.h>

#include <cstdint>

#include "tests/support/cuda_emulator/mma.h"

namespace autocfg::cuda_emulator {
namespace {

template <typename... Arguments>
void Start(dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel)(Arguments...),
           Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  if (cudaLaunchKernelEx(&config, kernel, arguments...) != cudaSuccess) Fail("the launch was refused");
}

template <typename T>
__global__ void BlockSumKernel(const T* x, T* sums) {
  __shared__ T shared[32];
  T value = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    T sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i) sum += shared[i];
    sums[blockIdx.x] = sum;
  }
}

__global__ void ShuffleKernel(int* xor_, int* up, int* down, int* first, int width) {
  const int lane = static_cast<int>(threadIdx.x);
  xor_[lane] = __shfl_xor_sync(0xffffffffu, lane, 5, width);
  up[lane] = __shfl_up_sync(0xffffffffu, lane, 3, width);
  down[lane] = __shfl_down_sync(0xffffffffu, lane, 3, width);
  first[lane] = __shfl_sync(0xffffffffu, lane, 2, width);
}

__global__ void VoteKernel(const int* predicate, unsigned* ballot, int* any, int* all, int* count) {
  const int p = predicate[threadIdx.x];
  ballot[threadIdx.x] = __ballot_sync(0xffffffffu, p);
  any[threadIdx.x] = __any_sync(0xffffffffu, p);
  all[threadIdx.x] = __all_sync(0xffffffffu, p);
  count[threadIdx.x] = __syncthreads_count(p);
}

__global__ void DivergeKernel(int* y) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < 16) {
    y[lane] = __shfl_xor_sync(0x0000ffffu, lane, 15);
  } else {
    y[lane] = __shfl_xor_sync(0xffff0000u, lane * 100, 15);
  }
  __syncwarp();
  y[lane] += __shfl_xor_sync(0xffffffffu, lane, 31);
}

__global__ void PoisonKernel(float* fixed, float* dynamic, int n) {
  __shared__ float shared[8];
  auto* more = reinterpret_cast<float*>(DynamicShared());
  const int first = static_cast<int>(blockIdx.x) * n;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    fixed[first + i] = shared[i];
    dynamic[first + i] = more[i];
    shared[i] = more[i] = 1;
  }
}

__global__ void WhereKernel(unsigned* y) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  y[at] = at;
}

// Fragments that are filled element by element, as the PTX ISA describes them.
std::uint32_t Pair(__nv_bfloat16 low, __nv_bfloat16 high) {
  return std::uint32_t{__bfloat16_as_ushort(low)} | std::uint32_t{__bfloat16_as_ushort(high)} << 16;
}

// c[16 x 8] = a[16 x 32] b[8 x 32]^T.
__global__ void MultiplyKernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  const int g = Lane() / 4, t = Lane() % 4;
  float sums[4] = {};
  for (int k = 0; k < 32; k += 16) {
    const auto left = [&](int row, int column) {
      const __nv_bfloat16* at = a + row * 32 + k + column;
      return Pair(at[0], at[1]);
    };
    const std::uint32_t a_[] = {left(g, 2 * t), left(g + 8, 2 * t), left(g, 2 * t + 8),
                                left(g + 8, 2 * t + 8)};
    const __nv_bfloat16* column = b + g * 32 + k;
    const std::uint32_t b_[] = {Pair(column[2 * t], column[2 * t + 1]),
                                Pair(column[2 * t + 8], column[2 * t + 9])};
    MultiplyFragments(sums, a_, b_);
  }
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
}

// y[block][row][column] of four blocks of 8 x 8 at x, whose rows are 24 elements apart: as they are, then
// transposed. Without `wait`, lanes may load before the others have copied x to shared memory.
__global__ void LoadBlocksKernel(const unsigned short* x, unsigned short* y, bool wait) {
  auto* shared = reinterpret_cast<unsigned short*>(DynamicShared());
  const int lane = Lane();
  for (int i = 0; i < 24; ++i) shared[lane * 24 + i] = x[lane * 24 + i];
  if (wait) __syncwarp();
  for (const bool transposed : {false, true}) {
    std::uint32_t pairs[4];
    LoadFragments(shared + (lane ^ 1) * 24 + 8, transposed, pairs);
    for (int block = 0; block < 4; ++block) {
      unsigned short* to = y + ((transposed ? 4 : 0) + block) * 64 + lane / 4 * 8 + lane % 4 * 2;
      to[0] = static_cast<unsigned short>(pairs[block] & 0xffff);
      to[1] = static_cast<unsigned short>(pairs[block] >> 16);
    }
  }
}

__global__ void CopyKernel(const int* x, int* y, bool wait) {
  auto* shared = reinterpret_cast<int*>(DynamicShared());
  CopyAsync16(shared, x, true);
  CommitCopies();
  CopyAsync16(shared + 4, x + 4, true);
  CopyAsync16(shared + 8, nullptr, false);
  CommitCopies();
  if (wait) WaitForCopies(1);
  for (int i = 0; i < 4; ++i) y[i] = shared[i];
  WaitForCopies(0);
  for (int i = 4; i < 12; ++i) y[i] = shared[i];
}

template <bool kBarrier>
__global__ void RotateKernel(int* y) {
  __shared__ int shared[64];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kBarrier) __syncthreads();
  y[threadIdx.x] = shared[(threadIdx.x + 1) % blockDim.x];
}

__global__ void TakeKernel(int* next, int* y) {
  y[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(next, 1);
}

__global__ void LeaveKernel(int* y) {
  if (threadIdx.x < 40) __syncthreads();
  if (threadIdx.x >= 40) __syncwarp(0x1u << threadIdx.x % 32);
  if (threadIdx.x >= 40) y[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
}

__global__ void ReturnKernel(int* y) {
  if (threadIdx.x >= 60) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void AbsentKernel(int* y) { y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1); }

__global__ void AgainstKernel(int* y) {
  if (threadIdx.x == 7) {
    y[7] = static_cast<int>(__ballot_sync(0xffffffffu, 1));
  } else {
    y[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
  }
}

__global__ void OutsideKernel(int* y) {
  if (threadIdx.x < 4) y[threadIdx.x] = __shfl_sync(0xfu, 1, 9);
}

__global__ void WriteSharedKernel(int* y, int at) {
  DynamicShared()[at] = 1;
  y[0] = 1;
}

__global__ void WriteGlobalKernel(float* y, int at) { y[at] = 1; }

}  // namespace

void BlockSum(const float* x, float* sums) { Start(3, 96, 0, BlockSumKernel<float>, x, sums); }
void ReadShuffles(int* xor_, int* up, int* down, int* first, int width) {
  Start(1, 32, 0, ShuffleKernel, xor_, up, down, first, width);
}
void ReadVotes(const int* predicate, unsigned* ballot, int* any, int* all, int* count) {
  Start(1, 64, 0, VoteKernel, predicate, ballot, any, all, count);
}
void Diverge(int* y) { Start(1, 32, 0, DivergeKernel, y); }
void ReadPoison(float* fixed, float* dynamic, int n) {
  Start(2, 2, static_cast<std::size_t>(n) * 4, PoisonKernel, fixed, dynamic, n);
}
void WhereAmI(unsigned* y) { Start({2, 3, 2}, {4, 2, 3}, 0, WhereKernel, y); }
void Multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  Start(1, 32, 0, MultiplyKernel, a, b, c);
}
void LoadBlocksOf(const unsigned short* x, unsigned short* y, bool wait) {
  Start(1, 32, 32 * 24 * 2, LoadBlocksKernel, x, y, wait);
}
void CopyAsynchronously(const int* x, int* y, bool wait) { Start(1, 1, 48, CopyKernel, x, y, wait); }
void RotateWithoutBarrier(int* y) { Start(1, 64, 0, RotateKernel<false>, y); }
void RotateWithBarrier(int* y) { Start(1, 64, 0, RotateKernel<true>, y); }
void TakeNumbers(int* next, int* y) { Start(2, 2, 0, TakeKernel, next, y); }
void LeaveSomeAtABarrier(int* y) { Start(1, 64, 0, LeaveKernel, y); }
void ReturnBeforeABarrier(int* y) { Start(1, 64, 0, ReturnKernel, y); }
void ShuffleWithAbsentLanes(int* y) { Start(1, 20, 0, AbsentKernel, y); }
void ShuffleAgainstVote(int* y) { Start(1, 32, 0, AgainstKernel, y); }
void ShuffleFromOutside(int* y) { Start(1, 32, 0, OutsideKernel, y); }
void WriteShared(int* y, int at, int bytes) {
  Start(1, 1, static_cast<std::size_t>(bytes), WriteSharedKernel, y, at);
}
void WriteGlobal(float* y, int at) { Start(1, 1, 0, WriteGlobalKernel, y, at); }

}  // namespace autocfg::cuda_emulator
