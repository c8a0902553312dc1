// Runs an emulated kernel: its blocks, the threads of a block, and the points where threads wait for each
// other. See cuda_runtime.h for what this proves. One thread of the operating system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/support/cuda_emulator/vector_types.h"

namespace autocfg::cuda_emulator {

// The order in which blocks run, and the threads of a block between two waits. Correct kernels give the same
// bits in every order.
enum class Order {
  kForward,
  kReverse,
  kShuffled,  // drawn again from the seed at every step
  // Runs each launch forward, then again from the same memory in reverse. Aborts the process if the memory of
  // cudaMalloc differs in a bit. For kernels that use no other memory.
  kCompared,
};

void SetOrder(Order order, std::uint64_t seed = 0);

// kCompared. kForward where AUTOCFG_EMULATED_DRAIN is set: then the tests run for the order of streams, after
// a run that compared.
Order OrderOfTests();

struct Geometry {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

// Runs body(argument) for every thread of every block.
void RunKernel(const Geometry& geometry, void (*body)(void*), void* argument);

// Reports misuse: prints `what` and where, and aborts.
[[noreturn]] void Fail(const std::string& what);

// These describe the running thread.
unsigned char* DynamicShared();
int Lane();
void JoinBlock();  // __syncthreads

// Waits until all lanes of `mask` have called with the same mask and `combine`. Then `combine` is called once
// with the data of each lane (by lane, null for those outside the mask). The data stay valid until all lanes
// have resumed. `name` is for messages.
using Combine = void (*)(void* const* brought, unsigned mask);
void JoinWarp(unsigned mask, const char* name, void* brought, Combine combine);

// Emulates cp.async of 16 bytes (zeros if not `valid`), commit_group and wait_group. If threads run forward,
// copies are made when they are waited for, as late as possible. In reverse order they are made at once, as
// early as possible.
void CopyAsync16(void* to, const void* from, bool valid);
void CommitCopies();
void WaitForCopies(int pending);

// Returns whether memory is read before the lanes meet (else after). Both happen, so that a missing
// __syncwarp before or after a collective load is found.
bool ReadsFirst();

}  // namespace autocfg::cuda_emulator
