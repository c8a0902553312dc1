#include "tests/support/cuda_emulator/device_functions.h"

namespace {

struct Vote {
  int predicate;
  unsigned result;
};

void CombineBallot(void* const* brought, unsigned mask) {
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0 && static_cast<const Vote*>(brought[lane])->predicate != 0)
      ballot |= 1u << lane;
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0) static_cast<Vote*>(brought[lane])->result = ballot;
  }
}

void CombineNothing(void* const*, unsigned) {}

}  // namespace

void __syncwarp(unsigned mask) {
  autocfg::cuda_emulator::JoinWarp(mask, "__syncwarp", nullptr, CombineNothing);
}

unsigned __ballot_sync(unsigned mask, int predicate) {
  Vote mine{predicate, 0};
  autocfg::cuda_emulator::JoinWarp(mask, "a vote", &mine, CombineBallot);
  return mine.result;
}

int __syncthreads_count(int predicate) {
  static int count = 0;
  __syncthreads();
  count = 0;
  __syncthreads();
  if (predicate != 0) ++count;
  __syncthreads();
  const int result = count;
  __syncthreads();
  return result;
}

__attribute__((noinline)) float __fadd_rn(float x, float y) { return x + y; }
__attribute__((noinline)) float __fmul_rn(float x, float y) { return x * y; }
