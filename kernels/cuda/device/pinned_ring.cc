#include "kernels/cuda/device/pinned_ring.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/cuda_stream.h"

namespace autocfg::cuda {

PinnedRing::PinnedRing(std::int64_t bytes) : places_(bytes) {
  void* data = nullptr;
  CheckHost(cudaMallocHost(&data, static_cast<std::size_t>(bytes)),
            fmt::format("allocating {} bytes of pinned memory", bytes));
  data_ = static_cast<char*>(data);
}

PinnedRing::~PinnedRing() {
  for (cudaEvent_t event : copied_) {
    (void)cudaEventSynchronize(event);
    events_.GiveBack(event);
  }
  (void)cudaFreeHost(data_);
}

void PinnedRing::Copy(void* device, const void* host, std::int64_t bytes, cudaStream_t stream) {
  char* room = Room(bytes);
  std::memcpy(room, host, static_cast<std::size_t>(bytes));
  Check(cudaMemcpyAsync(device, room, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream),
        "a copy to the device");
  copied_.push_back(events_.Record(stream));
}

char* PinnedRing::Room(std::int64_t bytes) {
  while (!copied_.empty()) {
    const cudaError_t status = cudaEventQuery(copied_.front());
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // busy is not an error, but the next call would report it
      break;
    }
    Check(status, "an earlier copy to the device");
    GiveBackOldest();
  }
  for (;;) {
    if (const auto offset = places_.Take(bytes)) return data_ + *offset;
    WaitForEvent(copied_.front());
    GiveBackOldest();
  }
}

void PinnedRing::GiveBackOldest() {
  places_.GiveBackOldest();
  events_.GiveBack(copied_.front());
  copied_.pop_front();
}

}  // namespace autocfg::cuda
