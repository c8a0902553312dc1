#include "kernels/cuda/cuda_stream.h"

#include <stdexcept>

#include "kernels/cuda/cuda_error.h"

namespace autocfg::cuda {

CudaStream::CudaStream() { Check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "making a stream"); }

CudaStream::~CudaStream() { (void)cudaStreamDestroy(handle_); }  // fails only where the device is already lost

void CudaStream::Synchronize() { Check(cudaStreamSynchronize(handle_), "the work on a stream"); }

cudaStream_t HandleOf(Stream& stream) {
  auto* ours = dynamic_cast<CudaStream*>(&stream);
  if (ours == nullptr) throw std::logic_error("a stream of another device was given to the CUDA device");
  return ours->handle();
}

}  // namespace autocfg::cuda
