// Kernels for the emulator's tests: correct ones, and faulty ones whose faults it must find.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace autocfg::cuda_emulator {

void BlockSum(const float* x, float* sums);  // per block, by shuffles and static shared memory
void ReadShuffles(int* xor_, int* up, int* down, int* first, int width);
void ReadVotes(const int* predicate, unsigned* ballot, int* any, int* all, int* count);
// one half of a warp shuffles, then the other half
void Diverge(int* y);
// reads the initial shared memory of a block, then writes to it
void ReadPoison(float* fixed, float* dynamic, int n);
void WhereAmI(unsigned* y);  // in a grid with three dimensions; each thread writes its number
inline constexpr unsigned kThreadsOfWhereAmI = 2 * 3 * 2 * 4 * 2 * 3;
void Multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c);
void LoadBlocksOf(const unsigned short* x, unsigned short* y, bool wait);

// copies two groups of 4 numbers, and zeros; waits for the first group before reading it if `wait`
void CopyAsynchronously(const int* x, int* y, bool wait);

void RotateWithoutBarrier(int* y);  // reads a neighbour's shared value that may not be written yet
void RotateWithBarrier(int* y);
void TakeNumbers(int* next, int* y);  // with an atomic: results depend on the order
void LeaveSomeAtABarrier(int* y);
void ReturnBeforeABarrier(int* y);
void ShuffleWithAbsentLanes(int* y);
void ShuffleAgainstVote(int* y);
void ShuffleFromOutside(int* y);
void WriteShared(int* y, int at, int bytes);
void WriteGlobal(float* y, int at);

}  // namespace autocfg::cuda_emulator
