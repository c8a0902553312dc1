// Copies from global to shared memory that run while the thread goes on (cp.async, which every device that
// the kernels are compiled for has).
#pragma once

#include <cuda_runtime.h>

namespace autocfg::cuda {

// 16 bytes to `shared`, both addresses multiples of 16; zeros where not `valid`, and then `global` is not
// read.
__device__ inline void CopyAsync16(void* shared, const void* global, bool valid) {
#if defined(AUTOCFG_CUDA_EMULATED)
  cuda_emulator::CopyAsync16(shared, global, valid);
#else
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(valid ? 16 : 0)
               : "memory");
#endif
}

// Ends a group: the copies that this thread has started since the last group.
__device__ inline void CommitCopies() {
#if defined(AUTOCFG_CUDA_EMULATED)
  cuda_emulator::CommitCopies();
#else
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

// Waits until all groups of this thread but its kPending newest are done. Other threads see the copies after
// the next __syncthreads.
template <int kPending>
__device__ void WaitForCopies() {
#if defined(AUTOCFG_CUDA_EMULATED)
  cuda_emulator::WaitForCopies(kPending);
#else
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
#endif
}

}  // namespace autocfg::cuda
