#include "kernels/cuda/device/scratch.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstddef>

#include "kernels/cuda/device/cuda_error.h"

namespace autocfg::cuda {

Scratch::~Scratch() {
  for (const Block& block : outgrown_) (void)cudaFree(block.data);
  (void)cudaFree(spare_.data);
  (void)cudaFree(block_.data);
}

Scratch::Block Scratch::Take(std::int64_t bytes) {
  Block block{.bytes = bytes};
  const cudaError_t status = cudaMalloc(&block.data, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return {};
  }
  Check(status, fmt::format("allocating {} bytes of scratch memory", bytes));
  return block;
}

void Scratch::Outgrow(Block& block, const Block& larger) {
  if (block.data != nullptr) outgrown_.push_back(block);
  block = larger;
}

void* Scratch::Get(std::int64_t bytes) {
  if (bytes <= block_.bytes) return block_.data;
  if (const Block larger = Take(bytes); larger.data != nullptr) {
    Outgrow(block_, larger);
    return block_.data;
  }
  // cudaFree waits until no running work can use it.
  Outgrow(block_, {});
  Release();
  Block only{.bytes = bytes};
  Check(cudaMalloc(&only.data, static_cast<std::size_t>(bytes)),
        fmt::format("allocating {} bytes of scratch memory", bytes));
  block_ = only;
  return block_.data;
}

void* Scratch::Spare(std::int64_t bytes) {
  if (bytes <= spare_.bytes) return spare_.data;
  std::size_t free = 0, total = 0;
  Check(cudaMemGetInfo(&free, &total), "querying the free memory");
  if (static_cast<std::int64_t>(free) - bytes < kLeftFree) return nullptr;
  const Block larger = Take(bytes);
  if (larger.data == nullptr) return nullptr;
  Outgrow(spare_, larger);
  return spare_.data;
}

void Scratch::Release() {
  Outgrow(spare_, {});
  while (!outgrown_.empty()) {
    const Block block = outgrown_.back();
    outgrown_.pop_back();
    Check(cudaFree(block.data), "freeing scratch memory");
  }
}

}  // namespace autocfg::cuda
