// What runs an emulated kernel: its blocks, the threads of a block, and the places where threads wait for
// each other. cuda_runtime.h says what that is good for. One thread of the operating system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/support/cuda_emulator/vector_types.h"

namespace autocfg::cuda_emulator {

// In which order blocks run, and the threads of a block between two places where they wait. Correct kernels
// give the same bits in any.
enum class Order {
  kForward,
  kReverse,
  kShuffled,  // drawn anew, from the seed, at every step
  // Each launch runs forward, then again from the same memory in reverse; where what it leaves in memory of
  // cudaMalloc differs in a bit, the process aborts. For kernels that touch no other memory.
  kCompared,
};

void SetOrder(Order order, std::uint64_t seed = 0);

struct Geometry {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

// Runs body(argument) for every thread of every block.
void RunKernel(const Geometry& geometry, void (*body)(void*), void* argument);

// Misuse: prints what and where, and aborts.
[[noreturn]] void Fail(const std::string& what);

// Of the thread that runs.
unsigned char* DynamicShared();
int Lane();
void JoinBlock();  // __syncthreads

// Waits until all lanes of `mask` have called with the same mask and `combine`, which is then called once
// with what each lane brought (by lane, null for those outside the mask). What a lane brought stays valid
// until all have been let go on. `name` is for messages.
using Combine = void (*)(void* const* brought, unsigned mask);
void JoinWarp(unsigned mask, const char* name, void* brought, Combine combine);

// cp.async of 16 bytes (zeros where not `valid`), commit_group, wait_group. Copies are made when they are
// waited for, as late as may be, where threads run forward; at once, as early as may be, where they run in
// reverse.
void CopyAsync16(void* to, const void* from, bool valid);
void CommitCopies();
void WaitForCopies(int pending);

// Whether memory is read before the lanes meet (else after): both happen, so that a missing __syncwarp is
// seen before as well as behind a collective load.
bool ReadsFirst();

}  // namespace autocfg::cuda_emulator
