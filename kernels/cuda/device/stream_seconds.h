// Times work on a stream by the device's own clock, for choosing among equivalent implementations. One rank,
// one thread.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/cuda_stream.h"

namespace autocfg::cuda {

// Returns the seconds of one `issue()`, the mean of `runs`. Call `issue()` once before, so that first-use
// loading is not timed. Waits for the stream. Throws DeviceError.
template <typename Issue>
double MeanSeconds(cudaStream_t stream, int runs, const Issue& issue) {
  struct Event {
    Event() { Check(cudaEventCreate(&handle), "creating an event"); }
    ~Event() { (void)cudaEventDestroy(handle); }
    cudaEvent_t handle = nullptr;
  };
  const Event start, end;
  Check(cudaEventRecord(start.handle, stream), "recording an event");
  for (int i = 0; i < runs; ++i) issue();
  Check(cudaEventRecord(end.handle, stream), "recording an event");
  WaitForEvent(end.handle);
  float milliseconds = 0;
  Check(cudaEventElapsedTime(&milliseconds, start.handle, end.handle), "reading an event");
  return static_cast<double>(milliseconds) / 1e3 / runs;
}

}  // namespace autocfg::cuda
