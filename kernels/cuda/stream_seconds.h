// How long work takes on a stream, by the device's own clock: for choices among ways to compute the same.
// Memory to do it in, where the true results must be kept. One rank, one thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/cuda_stream.h"

namespace autocfg::cuda {

// Device memory that is freed when it goes out of scope; null where there was no room.
class Temporary {
 public:
  explicit Temporary(std::int64_t bytes) {
    if (cudaMalloc(&data_, static_cast<std::size_t>(bytes)) != cudaSuccess) {
      (void)cudaGetLastError();
      data_ = nullptr;
    }
  }
  ~Temporary() { (void)cudaFree(data_); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Seconds of one `issue()`, the mean of `runs`. What is loaded at first use should have been. Waits for the
// stream. Throws DeviceError.
template <typename Issue>
double MeanSeconds(cudaStream_t stream, int runs, const Issue& issue) {
  struct Event {
    Event() { Check(cudaEventCreate(&handle), "making an event"); }
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
