// Pinned host memory through which small copies to the device pass, so that the caller's memory is free at
// once and the host waits for nothing. One rank, one thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

namespace autocfg::cuda {

class PinnedRing {
 public:
  PinnedRing() = default;
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  // Takes a copy of `host` and issues its copy to the device. Makes another buffer where all are still under
  // way.
  void Copy(void* device, const void* host, std::int64_t bytes, cudaStream_t stream);

 private:
  struct Buffer {
    void* data = nullptr;
    std::int64_t bytes = 0;
    cudaEvent_t copied = nullptr;
  };

  Buffer& Find(std::int64_t bytes);  // one that is free and large enough

  std::vector<Buffer> buffers_;
};

}  // namespace autocfg::cuda
