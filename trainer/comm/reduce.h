// Element-wise reduction of host memory. Thread-safe.
#pragma once

#include <cstdint>

#include "search/ops/dtype.h"
#include "trainer/comm/communicator.h"

namespace autocfg {

// Which operand comes first matters only to the bits of a NaN, and there it must be the same on every rank.
enum class ReduceOrder : std::uint8_t { kOwnFirst, kOtherFirst };

// own[i] = own[i] (op) other[i] for `n` elements of kF32, kF64, kBF16 or kI32. A NaN wins every maximum.
// int32 sums wrap around; those of kBF16 are made in float and rounded to nearest. The two do not overlap.
void ReduceInto(DType dtype, ReduceOp op, ReduceOrder order, void* own, const void* other, std::int64_t n);

}  // namespace autocfg
