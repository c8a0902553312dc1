#include "kernels/cuda/cuda_error.h"

#include <fmt/format.h>

#include <cstddef>

#include "kernels/device.h"

namespace autocfg::cuda {

void Check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  // Errors that do not end the context stay pending otherwise, and would be told of the next call.
  (void)cudaGetLastError();
  const std::string text =
      fmt::format("CUDA: {} failed: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation) {
    std::size_t free = 0, total = 0;
    const bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
    throw DeviceOutOfMemory(-1, known ? static_cast<std::int64_t>(free) : -1, text);
  }
  throw DeviceError(text);
}

void CheckHost(cudaError_t status, std::string_view what) {
  if (status != cudaErrorMemoryAllocation) return Check(status, what);
  (void)cudaGetLastError();
  throw DeviceError(fmt::format(
      "CUDA: {} failed: the host has not so much memory to pin; free some, or allow the process more", what));
}

}  // namespace autocfg::cuda
