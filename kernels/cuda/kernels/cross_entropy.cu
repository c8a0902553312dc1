#include <cfloat>
#include <cmath>

#include "kernels/cuda/kernels/cross_entropy.h"
#include "kernels/cuda/kernels/sum.h"
#include "kernels/cuda/primitives/soft_cap.cuh"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kAtOnce = 4;  // accesses that a thread has in flight
constexpr int kTokenThreads = 256;

// Initial value of a maximum; its product with log2(e) is finite too. Lower logits are ignored.
constexpr float kLowest = -1e38f;

// Calls body(column, values) for packs of N adjacent columns of a row below `columns`, which need not be a
// multiple of N. Whole packs are read, because rows are whole packs. The packs are distributed over the
// block's threads.
template <int N, typename T, typename Body>
__device__ void ForColumns(std::int64_t columns, const T* row, Body body) {
  const std::int64_t step = std::int64_t{blockDim.x} * N;
  for (std::int64_t first = std::int64_t{threadIdx.x} * N; first < columns; first += kAtOnce * step) {
    Vec<T, N> packs[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * step < columns) packs[k] = Load<N>(row + first + k * step);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * step >= columns) continue;
      float values[N];
      Unpack(packs[k], values);
      body(first + k * step, values);
    }
  }
}

// Returns 2^x by the hardware instruction, 0 if the result is denormal. Relative error: 2^-22.
__device__ float FastExp2(float x) {
#if defined(AUTOCFG_CUDA_EMULATED)
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// Computes exp(x - shift), as exact as float if T is float. If T is bf16 (8 bits of precision), uses two
// instructions, because a bf16 pass at memory speed leaves a thread about ten instructions per element.
template <typename T>
class ExpMinus {
 public:
  explicit __device__ ExpMinus(float shift) : shift_(kFast ? shift * kLog2E : shift) {}
  __device__ float operator()(float x) const {
    return kFast ? FastExp2(fmaf(x, kLog2E, -shift_)) : expf(x - shift_);
  }

 private:
  static constexpr bool kFast = sizeof(T) == 2;
  static constexpr float kLog2E = 1.44269504088896341f;
  const float shift_;
};

// A sum of exponentials, exp(max) sum. The terms are relative to the largest exponent, so that none
// overflows.
struct ExpSum {
  float max = kLowest;
  float sum = 0;
};

// What a logit counts as: itself, or capped.
template <bool kCapped>
struct LogitOf {
  float softcap;

  __device__ float operator()(float x) const { return kCapped ? SoftCap(x, softcap) : x; }
};

// Sums over the first `valid` columns of a row, read once (Milakov & Gimelshein 2018). Returns the result in
// every thread of the block. NaN is ignored by the maximum, but not by the sum.
template <int N, bool kCapped, typename T>
__device__ ExpSum SumOfExponentials(std::int64_t valid, const T* row, LogitOf<kCapped> logit, float* shared) {
  ExpSum mine;
  ForColumns<N>(valid, row, [&](std::int64_t column, float(&x)[N]) {
    if constexpr (kCapped) {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = logit(x[i]);
    }
    if (column + N > valid) {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = column + i < valid ? x[i] : -INFINITY;
    }
    float most = mine.max;
#pragma unroll
    for (int i = 0; i < N; ++i) most = fmaxf(most, x[i]);
    mine.sum *= expf(mine.max - most);
    const ExpMinus<T> exp_minus(most);
#pragma unroll
    for (int i = 0; i < N; ++i) mine.sum += exp_minus(x[i]);
    mine.max = most;
  });
  const float most = BlockReduce(mine.max, Max{}, kLowest, shared);
  const float sum = BlockReduce(mine.sum * expf(mine.max - most), Sum{}, 0.0f, shared);
  return {most, sum};
}

// Returns the target's logit, or 0 if the target is not in the row.
template <typename T>
__device__ float TargetLogit(std::int64_t target, std::int64_t valid, const T* row) {
  return target >= 0 && target < valid ? ToFloat(row[target]) : 0.0f;
}

// Replaces a row's logits by factor * exp(logit - shift), minus scale at the target, each times the slope of
// its cap; 0 in the padding.
template <int N, bool kCapped, typename T>
__device__ void WriteGradient(std::int64_t vocab, std::int64_t valid, std::int64_t target, float shift,
                              float factor, float scale, LogitOf<kCapped> logit, T* row) {
  const ExpMinus<T> exp_minus(shift);
  ForColumns<N>(vocab, row, [&](std::int64_t column, float(&x)[N]) {
    if constexpr (kCapped) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float y = logit(x[i]), less = column + i == target ? scale : 0.0f;
        x[i] = column + i < valid ? (factor * exp_minus(y) - less) * SoftCapSlope(y, logit.softcap) : 0.0f;
      }
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = factor * exp_minus(x[i]);
      if (column + N > valid || (target >= column && target < column + N)) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float less = column + i == target ? scale : 0.0f;
          x[i] = column + i < valid ? x[i] - less : 0.0f;
        }
      }
    }
    Store(row + column, PackOf<T>(x));
  });
}

// Threads of this kernel per multiprocessor; each takes over 32 registers. With more, the first data read by
// its blocks would leave the cache before they read it again.
constexpr int kWholeRowThreads = 1024;
// Largest row in bytes for which a multiprocessor runs two blocks: 35 MB in all on 132 multiprocessors, with
// 50 MB of cache (H100).
constexpr std::int64_t kMostBytesOfTwo = 128 * 1024;

template <typename T, int N, int Threads, bool kCapped>
__global__ void __launch_bounds__(Threads, kWholeRowThreads / Threads)
    WholeRowsKernel(std::int64_t vocab, std::int64_t valid, T* logits, const std::int32_t* targets,
                    float scale, LogitOf<kCapped> logit, double* losses) {
  __shared__ float shared[kWarp];
  const std::int64_t target = targets[blockIdx.x];
  T* row = logits + blockIdx.x * vocab;
  const float target_logit = threadIdx.x == 0 ? logit(TargetLogit(target, valid, row)) : 0.0f;
  const ExpSum all = SumOfExponentials<N>(valid, row, logit, shared);  // its barriers precede the writes
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = log(static_cast<double>(all.sum)) + (static_cast<double>(all.max) - target_logit);
  }
  WriteGradient<N>(vocab, valid, target, all.max, scale / all.sum, scale, logit, row);
}

template <typename T, int N, bool kCapped>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits,
                  const std::int32_t* targets, std::int64_t start, LogitOf<kCapped> logit, float* max,
                  float* sums) {
  __shared__ float shared[kWarp];
  const T* row = logits + blockIdx.x * vocab;
  const ExpSum all = SumOfExponentials<N>(valid, row, logit, shared);
  if (threadIdx.x != 0) return;
  const float log_sum_exp = valid == 0 ? -FLT_MAX : all.max + logf(all.sum);
  max[blockIdx.x] = log_sum_exp;
  sums[blockIdx.x] = log_sum_exp;
  sums[rows + blockIdx.x] = logit(TargetLogit(targets[blockIdx.x] - start, valid, row));
}

__global__ void __launch_bounds__(kTokenThreads)
    RescaleKernel(std::int64_t rows, const float* max, float* sums) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kTokenThreads + threadIdx.x;
  if (row < rows) sums[row] = expf(sums[row] - max[row]);
}

// Computes each block's part of the loss.
__global__ void __launch_bounds__(kTokenThreads)
    LossKernel(std::int64_t rows, const float* max, float* sums, double* partials) {
  __shared__ double shared[kWarp];
  const std::int64_t row = std::int64_t{blockIdx.x} * kTokenThreads + threadIdx.x;
  double loss = 0;
  if (row < rows) {
    const float log_sum_exp = max[row] + logf(sums[row]);
    sums[row] = log_sum_exp;
    // A row without valid columns adds nothing. NaN compares unequal, so it is added.
    if (log_sum_exp != -FLT_MAX)
      loss = static_cast<double>(log_sum_exp) - static_cast<double>(sums[rows + row]);
  }
  loss = BlockReduce(loss, Sum{}, 0.0, shared);
  if (threadIdx.x == 0) partials[blockIdx.x] = loss;
}

template <typename T, int N, bool kCapped>
__global__ void __launch_bounds__(kThreads)
    BackwardKernel(std::int64_t vocab, std::int64_t valid, T* logits, const float* sums,
                   const std::int32_t* targets, std::int64_t start, float scale, LogitOf<kCapped> logit) {
  WriteGradient<N>(vocab, valid, targets[blockIdx.x] - start, sums[blockIdx.x], scale, scale, logit,
                   logits + blockIdx.x * vocab);
}

// Calls run with the form of the logits: capped, or as they are, which is compiled separately.
template <typename Run>
void WithLogits(float softcap, Run run) {
  if (softcap != 0) return run(LogitOf<true>{softcap});
  run(LogitOf<false>{});
}

LaunchShape BlockARow(std::int64_t rows) { return {dim3(static_cast<unsigned>(rows)), dim3(kThreads)}; }
LaunchShape ThreadARow(std::int64_t rows) {
  return {dim3(CeilDiv(rows, kTokenThreads)), dim3(kTokenThreads)};
}

}  // namespace

template <typename T>
void CrossEntropy(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                  const std::int32_t* targets, float scale, float softcap, double* loss, Scratch& scratch,
                  cudaStream_t stream) {
  double* losses = scratch.Get<double>(rows);
  const LaunchShape two{dim3(static_cast<unsigned>(rows)), dim3(kWholeRowThreads / 2)};
  const LaunchShape one{dim3(static_cast<unsigned>(rows)), dim3(kWholeRowThreads)};
  WithPacks<T>(vocab, {logits}, [&]<int N>() {
    WithLogits(softcap, [&]<bool kCapped>(LogitOf<kCapped> logit) {
      // Two blocks hide each other's barriers; the caches cannot hold two long rows.
      if (vocab * static_cast<std::int64_t>(sizeof(T)) <= kMostBytesOfTwo) {
        Launch(WholeRowsKernel<T, N, kWholeRowThreads / 2, kCapped>, two, stream, vocab, valid, logits,
               targets, scale, logit, losses);
      } else {
        Launch(WholeRowsKernel<T, N, kWholeRowThreads, kCapped>, one, stream, vocab, valid, logits, targets,
               scale, logit, losses);
      }
    });
  });
  AddSum(rows, losses, loss, stream);
}

template <typename T>
void CrossEntropyForward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, const T* logits,
                         const std::int32_t* targets, std::int64_t start, float softcap, float* max,
                         float* sums, cudaStream_t stream) {
  WithPacks<T>(vocab, {logits}, [&]<int N>() {
    WithLogits(softcap, [&]<bool kCapped>(LogitOf<kCapped> logit) {
      Launch(ForwardKernel<T, N, kCapped>, BlockARow(rows), stream, rows, vocab, valid, logits, targets,
             start, logit, max, sums);
    });
  });
}

void CrossEntropyRescale(std::int64_t rows, const float* max, float* sums, cudaStream_t stream) {
  Launch(RescaleKernel, ThreadARow(rows), stream, rows, max, sums);
}

void CrossEntropyLoss(std::int64_t rows, const float* max, float* sums, double* loss, Scratch& scratch,
                      cudaStream_t stream) {
  const LaunchShape shape = ThreadARow(rows);
  double* partials = scratch.Get<double>(shape.grid.x);
  Launch(LossKernel, shape, stream, rows, max, sums, partials);
  AddSum(shape.grid.x, partials, loss, stream);
}

template <typename T>
void CrossEntropyBackward(std::int64_t rows, std::int64_t vocab, std::int64_t valid, T* logits,
                          const float* sums, const std::int32_t* targets, std::int64_t start, float scale,
                          float softcap, cudaStream_t stream) {
  WithPacks<T>(vocab, {logits}, [&]<int N>() {
    WithLogits(softcap, [&]<bool kCapped>(LogitOf<kCapped> logit) {
      Launch(BackwardKernel<T, N, kCapped>, BlockARow(rows), stream, vocab, valid, logits, sums, targets,
             start, scale, logit);
    });
  });
}

template void CrossEntropy(std::int64_t, std::int64_t, std::int64_t, float*, const std::int32_t*, float,
                           float, double*, Scratch&, cudaStream_t);
template void CrossEntropy(std::int64_t, std::int64_t, std::int64_t, __nv_bfloat16*, const std::int32_t*,
                           float, float, double*, Scratch&, cudaStream_t);
template void CrossEntropyForward(std::int64_t, std::int64_t, std::int64_t, const float*, const std::int32_t*,
                                  std::int64_t, float, float*, float*, cudaStream_t);
template void CrossEntropyForward(std::int64_t, std::int64_t, std::int64_t, const __nv_bfloat16*,
                                  const std::int32_t*, std::int64_t, float, float*, float*, cudaStream_t);
template void CrossEntropyBackward(std::int64_t, std::int64_t, std::int64_t, float*, const float*,
                                   const std::int32_t*, std::int64_t, float, float, cudaStream_t);
template void CrossEntropyBackward(std::int64_t, std::int64_t, std::int64_t, __nv_bfloat16*, const float*,
                                   const std::int32_t*, std::int64_t, float, float, cudaStream_t);

}  // namespace autocfg::cuda
