// mma.sync and ldmatrix for bf16 operands and float sums, with the fragments of the PTX ISA (m16n8k16,
// m8n8.x4). All lanes of a warp take part. Products are added in float, in ascending depth.
#pragma once

#include <cstdint>

namespace autocfg::cuda_emulator {

// d[16 x 8] += a[16 x 16] b[16 x 8]. `d` are this lane's 4 sums, `a` its 4 and `b` its 2 pairs.
void MultiplyFragments(float* d, const std::uint32_t* a, const std::uint32_t* b);

// Loads four 8 x 8 blocks. `row`: the 16 bytes that this lane passes, row lane % 8 of block lane / 8; ends
// the kernel with an error if they are not aligned. `to`: one pair of each block, or of its transpose.
void LoadFragments(const void* row, bool transposed, std::uint32_t* to);

}  // namespace autocfg::cuda_emulator
