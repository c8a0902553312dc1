// Asynchronous copies from global to shared memory (cp.async, which every device that the kernels are
// compiled for supports).
#pragma once

#include <cuda_runtime.h>

namespace autocfg::cuda {

// Copies 16 bytes to `shared`; both addresses are multiples of 16. If not `valid`, writes zeros and does not
// read `global`.
__device__ inline void CopyAsync16(void* shared, const void* global, bool valid) {
#if defined(AUTOCFG_CUDA_EMULATED)
  cuda_emulator::CopyAsync16(shared, global, valid);
#else
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(valid ? 16 : 0)
               : "memory");
#endif
}

// Closes a group: the copies that this thread has started since the previous group.
__device__ inline void CommitCopies() {
#if defined(AUTOCFG_CUDA_EMULATED)
  cuda_emulator::CommitCopies();
#else
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

// Waits until all groups of this thread except its kPending newest have finished. Other threads see the
// copies after the next __syncthreads.
template <int kPending>
__device__ void WaitForCopies() {
#if defined(AUTOCFG_CUDA_EMULATED)
  cuda_emulator::WaitForCopies(kPending);
#else
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
#endif
}

}  // namespace autocfg::cuda
