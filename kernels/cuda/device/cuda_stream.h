// A CUDA stream as the Stream of kernels/device.h: waiting for its work and timing it. One rank, one thread.
#pragma once

#include <cuda_runtime.h>

#include <functional>

#include "kernels/cuda/device/cuda_event.h"
#include "kernels/device.h"

namespace autocfg::cuda {

class CudaStream final : public Stream {
 public:
  CudaStream();  // does not synchronize with the default stream
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void Synchronize() override;  // throws DeviceError for errors on the stream
  cudaStream_t handle() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

// Waits until the recorded event has completed, as Synchronize does for a whole stream. Throws DeviceError.
void WaitForEvent(cudaEvent_t event);

// Sets a hook that is called about every millisecond (`often`: at each look at the device) while this thread
// synchronizes a CudaStream or waits for an event. The hook may throw to end the wait. Communication uses it
// to check its peers, because the stream may be waiting for them. An empty hook disables the calls.
void SetHostWaitHook(std::function<void()> hook, bool often = false);

// Returns the CUDA stream of a `stream` that a CudaDevice created. Throws std::logic_error for any other.
cudaStream_t HandleOf(Stream& stream);

// Returns the seconds of one `issue()`, the mean of `runs`, by the device's own clock; for choosing among
// equivalent implementations. Call `issue()` once before, so that first-use
// loading is not timed. Waits for the stream. Throws DeviceError.
template <typename Issue>
double MeanSeconds(cudaStream_t stream, int runs, const Issue& issue) {
  TimedEvent start, end;
  start.Record(stream);
  for (int i = 0; i < runs; ++i) issue();
  end.Record(stream);
  WaitForEvent(end.handle());
  return SecondsBetween(start, end) / runs;
}

}  // namespace autocfg::cuda
