// Kernels that the emulator's tests run: right ones, and wrong ones whose faults it must find.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace autocfg::cuda_emulator {

void BlockSum(const float* x, float* sums);  // per block, by shuffles and static shared memory
void ReadShuffles(int* xor_, int* up, int* down, int* first, int width);
void ReadVotes(const int* predicate, unsigned* ballot, int* any, int* all, int* count);
// half a warp shuffles among itself, then the other half
void Diverge(int* y);
// shared memory as a block finds it; then writes to it
void ReadPoison(float* fixed, float* dynamic, int n);
void WhereAmI(unsigned* y);  // of a grid in three dimensions
void Multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, float* transposed);

// two groups of 4 numbers, and zeros; `wait` for the first group before it is read
void CopyAsynchronously(const int* x, int* y, bool wait);

void RotateWithoutBarrier(int* y);  // reads a neighbour's shared value that may not be there yet
void RotateWithBarrier(int* y);
void TakeNumbers(int* next, int* y);  // by an atomic: results depend on order
void LeaveSomeAtABarrier(int* y);
void ReturnBeforeABarrier(int* y);
void ShuffleWithAbsentLanes(int* y);
void ShuffleAgainstVote(int* y);
void ShuffleFromOutside(int* y);
void WriteShared(int* y, int at, int bytes);
void WriteGlobal(float* y, int at);

}  // namespace autocfg::cuda_emulator
