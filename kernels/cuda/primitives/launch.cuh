// Launching kernels, and the shared memory of a block. Kernels in this directory use only what
// tests/support/cuda_emulator can run on a CPU, so that their results are checked on machines without a GPU.
// That is: Launch instead of <<<>>>, SharedMemory() instead of `extern __shared__`, and the functions that
// cuda_emulator/cuda_runtime.h lists.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cuda/device/cuda_error.h"

namespace autocfg::cuda {

// Limits of the GPUs that the engine is compiled for (CUDA C++ Programming Guide, "Compute Capabilities" and
// "Large kernel arguments").
inline constexpr std::size_t kMostParameterBytes = 32764;
inline constexpr std::size_t kMostSharedBytes = std::size_t{163} << 10;    // of a block, on the smallest
inline constexpr std::size_t kReservedSharedBytes = std::size_t{1} << 10;  // the system's, in each block
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr std::size_t kProcessorSharedBytes = std::size_t{228} << 10;  // of a multiprocessor
#else
inline constexpr std::size_t kProcessorSharedBytes = std::size_t{164} << 10;
#endif

// Returns how many of the `target` blocks fit in the shared memory of a multiprocessor. For
// __launch_bounds__, where a larger number would take registers from threads for nothing.
constexpr int BlocksThatFit(int target, std::size_t shared_bytes) {
  const auto fit = static_cast<int>(kProcessorSharedBytes / (shared_bytes + kReservedSharedBytes));
  return target < fit ? target : fit;
}

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;  // up to 48 KiB, or the size passed to AllowShared
};

// Launches `kernel` on the stream. Throws DeviceError if it cannot start. Errors while it runs are thrown by
// the stream's next synchronization.
template <typename... Parameters, typename... Arguments>
void Launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
            Arguments&&... arguments) {
  static_assert((sizeof(Parameters) + ... + 0) <= kMostParameterBytes);
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  Check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...),
        "launching a kernel");
}

// Allows a kernel more than 48 KiB of shared memory. Call before Launch; cheap when repeated.
template <typename... Parameters>
void AllowShared(void (*kernel)(Parameters...), std::size_t bytes) {
  Check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "requesting shared memory");
}

// Returns how many blocks of this size the device runs at once: the grid size for kernels whose blocks
// distribute the work among themselves. The same for every GPU of a model.
template <typename... Parameters>
std::int64_t ResidentBlocks(void (*kernel)(Parameters...), int threads, std::size_t shared_bytes = 0) {
  int device = 0, processors = 0, blocks = 0;
  Check(cudaGetDevice(&device), "querying the current GPU");
  Check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "querying the GPU's multiprocessors");
  Check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reinterpret_cast<const void*>(kernel), threads,
                                                      shared_bytes),
        "querying the number of resident blocks");
  return std::int64_t{processors} * (blocks > 1 ? blocks : 1);
}

constexpr unsigned CeilDiv(std::int64_t n, std::int64_t by) {
  return static_cast<unsigned>((n + by - 1) / by);
}

// Returns the block's shared memory of LaunchShape::shared_bytes, aligned to 128.
#if defined(AUTOCFG_CUDA_EMULATED)
inline unsigned char* SharedMemory() { return cuda_emulator::DynamicShared(); }
#elif defined(__CUDACC__)
__device__ inline unsigned char* SharedMemory() {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  return shared_memory;
}
#endif

}  // namespace autocfg::cuda
