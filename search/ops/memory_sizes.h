// Sizes in device memory that kernels, trainer and memory model share: alignment, attention workspace,
// staging of collectives, and the scalars of a step. Pure functions, thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "search/ops/dtype.h"

namespace autocfg {

// Every tensor in the arena starts at a multiple of this many bytes, and its size is rounded up to one.
inline constexpr std::int64_t kArenaAlignment = 64;

// Returns the bytes that a tensor of `bytes` bytes takes in the arena. Requires 0 <= bytes <= 2^63 - 64.
constexpr std::int64_t AlignedBytes(std::int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// Returns the elements that a parameter of `elements` elements takes in its unit (docs/engine.md, "Units"):
// in a row of such, each starts at a multiple of kArenaAlignment bytes in every type.
inline constexpr std::int64_t kUnitAlignment = kArenaAlignment;  // elements
constexpr std::int64_t AlignedElements(std::int64_t elements) { return AlignedBytes(elements); }

// Returns the elements of a unit whose parameters take `elements`: `shards` equal parts, each aligned.
constexpr std::int64_t UnitElements(std::int64_t elements, std::int64_t shards) {
  const std::int64_t step = kArenaAlignment * shards;
  return (elements + step - 1) / step * step;
}

// Returns the bytes of a moment of the optimizer for `elements` elements. Moments of one byte come in blocks
// with a scale in fp32 each (Dettmers et al. 2022; blocks of 256 elements as in bitsandbytes).
inline constexpr std::int64_t kMomentBlock = 256;
constexpr std::int64_t MomentBytes(std::int64_t elements, DType type) {
  const std::int64_t blocks = type == DType::kI8 ? (elements + kMomentBlock - 1) / kMomentBlock : 0;
  return elements * SizeOf(type) + blocks * SizeOf(DType::kF32);
}

// Rows of a block of attention scores on devices that compute attention block by block in the workspace.
inline constexpr std::int64_t kAttentionBlockRows = 128;

// Returns the elements of the statistics type that attention needs besides its operands: two blocks of scores
// of min(S, kAttentionBlockRows) rows, and one row vector. The same for all devices.
constexpr std::int64_t AttentionWorkspaceElements(std::int64_t seq_len, std::int64_t /*head_dim*/) {
  return 2 * std::min(seq_len, kAttentionBlockRows) * seq_len + seq_len;
}

// Scalars of a step, in fp64, that all ranks sum: the loss and the squared gradient norm.
inline constexpr std::int64_t kStepScalars = 2;

// Arena memory that a communicator needs for each group of more than one rank: staging for the pieces that
// arrive during a reduction.
inline constexpr std::int64_t kCollectiveStagingBytes = std::int64_t{1} << 20;

}  // namespace autocfg
