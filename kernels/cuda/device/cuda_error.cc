#include "kernels/cuda/device/cuda_error.h"

#include <fmt/format.h>

#include <cstddef>

#include "kernels/device.h"

namespace autocfg::cuda {
namespace {

constexpr std::int64_t kShortBytes = std::int64_t{64} << 20;  // libraries of a context take some 100 MiB

}  // namespace

void Check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  // Clears the error. Errors that do not end the context would otherwise be reported by the next call.
  (void)cudaGetLastError();
  const std::string text =
      fmt::format("CUDA: {} failed: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation) throw DeviceOutOfMemory(-1, FreeBytes(), text);
  throw DeviceError(text);
}

void CheckHost(cudaError_t status, std::string_view what) {
  if (status != cudaErrorMemoryAllocation) return Check(status, what);
  (void)cudaGetLastError();
  throw DeviceError(fmt::format(
      "CUDA: {} failed: the host cannot pin that much memory; free some, or raise the limit of the process",
      what));
}

std::int64_t FreeBytes() {
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<std::int64_t>(free) : -1;
}

bool IsShortOfMemory() {
  const std::int64_t free = FreeBytes();
  return free >= 0 && free < kShortBytes;
}

}  // namespace autocfg::cuda
