// Pinned host memory through which small copies to the device pass, so that the caller's memory is free at
// once and the host waits for nothing. All of it is taken at the start: CUDA may wait for the device's work
// while it pins memory, receives from peers among it, which may need this host. One rank, one thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "kernels/cuda/ring_places.h"

namespace autocfg::cuda {

class PinnedRing {
 public:
  // On the thread's current GPU. Throws DeviceError where the host cannot pin so much.
  explicit PinnedRing(std::int64_t bytes);
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  // Takes a copy of `host` and issues its copy to the device. Requires no more bytes than the ring has. Where
  // copies under way leave no room, the oldest are waited for (WaitForEvent), as everything is by a host that
  // does not run ahead: programs are proved to come to their end so (search/schedule).
  void Copy(void* device, const void* host, std::int64_t bytes, cudaStream_t stream);

 private:
  char* Room(std::int64_t bytes);
  void GiveBackOldest();

  RingPlaces places_;
  char* data_ = nullptr;
  std::deque<cudaEvent_t> copied_;  // of each piece, the oldest first
  std::vector<cudaEvent_t> free_events_;
};

}  // namespace autocfg::cuda
