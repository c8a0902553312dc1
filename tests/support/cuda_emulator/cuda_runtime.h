// An emulated CUDA: the very same files of kernels/cuda, compiled by the host's compiler with this directory
// first on the include path, run on the CPU. Each thread of a block is a fiber that runs until it waits for
// others; blocks run one after another. For tests; one thread of the operating system; x86-64.
//
// What it proves, when a kernel's results agree with a reference:
// - its indices, shapes, edges and arithmetic, bf16 rounding included (conversions round to nearest even, as
//   the device does);
// - that no barrier is missing or divergent: a thread runs alone from one wait to the next, so what it reads
//   of another's without a barrier between is not there yet in one of the orders (Order::kCompared runs every
//   launch forward and in reverse, and compares all memory bit for bit). The same holds for blocks: what
//   depends on their order, or on atomics' order, is found; What cp.async copies (emulator.h: CopyAsync16)
//   arrives as late as may be in one order and at once in the other;
// - that no thread of a warp or block waits for one that never comes: __syncthreads that not all threads of
//   the block reach, ended ones included, and warp functions that not all lanes of the mask call alike, end
//   the process with a message that counts who waits where. CUDA allows a thread that has ended to be missing
//   at a barrier; kernels of this project do not rely on it;
// - that memory is used within its bounds: what is written beyond dynamic shared memory, or beyond an
//   allocation, is found after the block or launch, further accesses fault at once; shared memory (dynamic,
//   and the static one of kernels in a library of autocfg_emulated_kernels) is NaN when a block starts,
//   memory of cudaMalloc when it is allocated. More than 48 KiB of dynamic shared memory must have been
//   allowed;
// - that it takes only what the smallest supported device has: 1024 threads a block, 163 KiB of shared
//   memory.
//
// What it does not prove: anything about speed, registers, coalescing or bank conflicts; that memory
// operations of different blocks or of un-synchronised threads are ordered as the device's memory model wants
// them (there is one order of all operations here; __threadfence does nothing); the exact bits of the
// device's fast functions (__expf, rsqrtf, ...: here they are as good as libm), of its matrix units and of
// its fused multiply-adds; what depends on the true layout of a wmma fragment (here it is a different one on
// purpose).
//
// Beyond the language: __syncthreads and its _or, _and, _count; __syncwarp, __shfl*_sync, __ballot_sync,
// __any_sync, __all_sync; atomics on integers (there are none on floating-point numbers: results of this
// project do not depend on their order); cuda_bf16.h; mma.h; launches by cudaLaunchKernelEx. Streams and
// events order nothing, since everything has run when its call returns.
#pragma once

#include "tests/support/cuda_emulator/device_functions.h"
#include "tests/support/cuda_emulator/emulator.h"
#include "tests/support/cuda_emulator/host_api.h"
#include "tests/support/cuda_emulator/vector_types.h"
