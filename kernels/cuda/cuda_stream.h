// A CUDA stream as the Stream of kernels/device.h. One rank, one thread.
#pragma once

#include <cuda_runtime.h>

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

// The CUDA stream in `stream`, which a CudaDevice made. Throws std::logic_error for any other.
cudaStream_t HandleOf(Stream& stream);

}  // namespace autocfg::cuda
