#include "kernels/cuda/pinned_ring.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "kernels/cuda/cuda_error.h"

namespace autocfg::cuda {

PinnedRing::~PinnedRing() {
  for (const Buffer& buffer : buffers_) {
    (void)cudaEventSynchronize(buffer.copied);
    (void)cudaEventDestroy(buffer.copied);
    (void)cudaFreeHost(buffer.data);
  }
}

void PinnedRing::Copy(void* device, const void* host, std::int64_t bytes, cudaStream_t stream) {
  const Buffer& buffer = Find(bytes);
  std::memcpy(buffer.data, host, static_cast<std::size_t>(bytes));
  Check(cudaMemcpyAsync(device, buffer.data, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream),
        "a copy to the device");
  Check(cudaEventRecord(buffer.copied, stream), "recording an event");
}

PinnedRing::Buffer& PinnedRing::Find(std::int64_t bytes) {
  for (Buffer& buffer : buffers_) {
    if (buffer.bytes < bytes) continue;
    const cudaError_t status = cudaEventQuery(buffer.copied);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // being busy is no error, but the next call would be told of it
      continue;
    }
    Check(status, "an earlier copy to the device");
    return buffer;
  }
  Buffer made{.bytes = bytes};
  CheckHost(cudaMallocHost(&made.data, static_cast<std::size_t>(bytes)),
            fmt::format("taking {} bytes of pinned memory", bytes));
  if (const cudaError_t status = cudaEventCreateWithFlags(&made.copied, cudaEventDisableTiming);
      status != cudaSuccess) {
    (void)cudaFreeHost(made.data);
    Check(status, "making an event");
  }
  return buffers_.emplace_back(made);
}

}  // namespace autocfg::cuda
