// Element-wise reduction in host memory. Thread-safe.
#pragma once

#include <cstdint>

#include "search/ops/dtype.h"
#include "trainer/comm/communicator.h"

namespace autocfg::trainer {

// Order of the operands. It affects only the bits of a NaN, but must be the same on every rank.
enum class ReduceOrder : std::uint8_t { kOwnFirst, kOtherFirst };

// Computes own[i] = own[i] (op) other[i] for `n` elements of kF32, kF64, kBF16 or kI32. A maximum with a NaN
// is a NaN. int32 sums wrap around; kBF16 sums are computed in float and rounded to nearest. The buffers must
// not overlap.
void ReduceInto(DType dtype, ReduceOp op, ReduceOrder order, void* own, const void* other, std::int64_t n);

}  // namespace autocfg::trainer
