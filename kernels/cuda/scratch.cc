#include "kernels/cuda/scratch.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstddef>

#include "kernels/cuda/cuda_error.h"

namespace autocfg::cuda {

Scratch::~Scratch() { (void)cudaFree(data_); }

void* Scratch::Get(std::int64_t bytes) {
  if (bytes <= bytes_) return data_;
  // cudaFree waits until nothing runs that may use it.
  Check(cudaFree(data_), "freeing scratch memory");
  data_ = nullptr;
  bytes_ = 0;
  Check(cudaMalloc(&data_, static_cast<std::size_t>(bytes)),
        fmt::format("taking {} bytes of scratch memory", bytes));
  bytes_ = bytes;
  return data_;
}

}  // namespace autocfg::cuda
