// A CUDA stream as the Stream of kernels/device.h. One rank, one thread.
#pragma once

#include <cuda_runtime.h>

#include <functional>

#include "kernels/device.h"

namespace autocfg::cuda {

class CudaStream final : public Stream {
 public:
  CudaStream();  // does not wait for the default stream
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void Synchronize() override;  // throws DeviceError for what went wrong on the stream
  cudaStream_t handle() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

// Returns when the event, which has been recorded, has come; as Synchronize does for all of a stream. Throws
// DeviceError.
void WaitForEvent(cudaEvent_t event);

// `hook` is called about every millisecond while a CudaStream of this thread is synchronised or an event
// waited for, and may throw to end that: communication looks after its peers there, whose part the stream may
// be waiting for. Empty: nothing is called.
void SetHostWaitHook(std::function<void()> hook);

// The CUDA stream in `stream`, which a CudaDevice made. Throws std::logic_error for any other.
cudaStream_t HandleOf(Stream& stream);

}  // namespace autocfg::cuda
