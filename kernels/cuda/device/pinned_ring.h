// A ring of pinned host memory for small copies to the device. The caller's memory is free at once, and the
// host does not block. The whole ring is allocated at construction: pinning memory may wait for the device's
// work, including receives from peers that may need this host. One rank, one thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>

#include "kernels/cuda/device/cuda_event.h"
#include "kernels/cuda/device/ring_places.h"

namespace autocfg::cuda {

class PinnedRing {
 public:
  // Allocates for the thread's current GPU. Throws DeviceError if the host cannot pin that much memory.
  explicit PinnedRing(std::int64_t bytes);
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  // Copies `host` into the ring and issues the copy to the device. Requires no more bytes than the ring has.
  // If copies in flight leave no room, waits for the oldest (WaitForEvent). This cannot deadlock: programs
  // are proved to finish even on a host that waits for everything (search/schedule).
  void Copy(void* device, const void* host, std::int64_t bytes, cudaStream_t stream);

 private:
  char* Room(std::int64_t bytes);
  void GiveBackOldest();

  RingPlaces places_;
  char* data_ = nullptr;
  std::deque<cudaEvent_t> copied_;  // one per piece, the oldest first
  EventPool events_;
};

}  // namespace autocfg::cuda
