// Host numbers to and from a device's tensors. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace autocfg {

// Elements [offset, offset + values.size()) of `tensor` (kF32, rounded to nearest, or kF64) become `values`.
// Requires tensor.data.
void CopyFromDoubles(std::span<const double> values, const Tensor& tensor, std::int64_t offset,
                     Device& device, Stream& stream);

}  // namespace autocfg
