// An emulated CUDA. It runs the unchanged files of kernels/cuda on the CPU, compiled by the host's compiler
// with this directory first on the include path. Each thread of a block is a fiber that runs until it waits
// for others; blocks run one after another. For tests; one thread of the operating system; x86-64.
//
// If a kernel's results agree with a reference, this proves:
// - Its indices, shapes, edges and arithmetic are correct, including bf16 rounding (conversions round to
//   nearest even, as the device does).
// - No barrier is missing or divergent. A thread runs alone from one wait to the next. So a value that it
//   reads from another thread without a barrier is missing in one of the orders (Order::kCompared runs every
//   launch forward and in reverse and compares all memory bit for bit). The same holds for blocks: dependence
//   on the order of blocks or of atomics is found. Data copied by cp.async (emulator.h: CopyAsync16) arrive
//   as late as possible in one order and at once in the other.
// - No thread of a warp or block waits forever. If not all threads of the block reach a __syncthreads,
//   including ended ones, or not all lanes of the mask make the same warp call, the process ends with a
//   message that counts the waiting threads by place. CUDA allows ended threads to miss a barrier; our
//   kernels do not rely on it.
// - Memory accesses are in bounds. Writes beyond dynamic shared memory or beyond an allocation are found
//   after the block or launch; accesses further beyond fault at once. Shared memory is NaN when a block
//   starts (dynamic, and the static one of kernels in a library of autocfg_emulated_kernels); memory of
//   cudaMalloc is NaN when it is allocated. More than 48 KiB of dynamic shared memory must have been allowed.
// - Host code waits for what it needs, if it gives the same results when the work on streams runs as late as
//   possible, and in a random legal order (streams.h: Drain). A missing wait for a stream or an event reads
//   what was there before. The null stream is the exception: its work always runs at once.
// - The kernel needs no more than the smallest supported device has: 1024 threads per block, 163 KiB of
//   shared memory.
// - No kernel is launched with more threads a block than its __launch_bounds__ allow (launches.h; the bounds
//   are read from machine code).
// - Host code reports a fault of the device, if it does so for the faults that faults.h injects.
//
// It does not prove:
// - anything about speed, registers, coalescing or bank conflicts;
// - that memory operations of different blocks or of unsynchronized threads are ordered as the device's
//   memory model requires (here all operations have one order, and __threadfence does nothing);
// - the exact bits of the device's fast functions (__expf, rsqrtf, ...: here they are as accurate as libm),
//   of its matrix units and of its fused multiply-adds.
//
// Supported beyond the language: __syncthreads and its _or, _and, _count; __syncwarp, __shfl*_sync,
// __ballot_sync, __any_sync, __all_sync; atomics on integers (none on floating-point numbers, because our
// results must not depend on their order); cuda_bf16.h; mma.sync and ldmatrix (mma.h); launches by
// cudaLaunchKernelEx; streams and events (streams.h).
#pragma once

#include "tests/support/cuda_emulator/device_functions.h"
#include "tests/support/cuda_emulator/emulator.h"
#include "tests/support/cuda_emulator/host_api.h"
#include "tests/support/cuda_emulator/vector_types.h"
