// Host numbers to and from a device's tensors. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace autocfg {

// Writes the values to `to` as elements of the type: kF64, or kF32 or kBF16, rounded to nearest, to float
// first. Throws NotSupported for other types.
void EncodeDoubles(std::span<const double> values, DType type, char* to);

// Elements [offset, offset + values.size()) of `tensor` become `values`, encoded as EncodeDoubles
// does. Requires tensor.data.
void CopyFromDoubles(std::span<const double> values, const Tensor& tensor, std::int64_t offset,
                     Device& device, Stream& stream);

// The whole of `tensor` becomes the values, again and again. Only the values themselves are encoded and come
// from the host: what is there is copied within the device, twice as much each time.
// Requires tensor.data and at least one value; types as above.
void RepeatFromDoubles(std::span<const double> values, const Tensor& tensor, Device& device, Stream& stream);

}  // namespace autocfg
