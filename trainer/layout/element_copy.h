// Copies host numbers to a device's tensors. Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace autocfg::trainer {

// Encodes the values into `to` as elements of the given type. Supports kF64; kF32 and kBF16, rounded to
// nearest (kBF16 by way of float). Throws NotSupported for other types.
void EncodeDoubles(std::span<const double> values, DType type, char* to);

// Sets elements [offset, offset + values.size()) of `tensor` to `values`, encoded as by EncodeDoubles.
// Requires tensor.data.
void CopyFromDoubles(std::span<const double> values, const Tensor& tensor, std::int64_t offset,
                     Device& device, Stream& stream);

// Fills `tensor` with repetitions of `values`. Only one copy is encoded and sent from the host; the device
// then doubles the filled part until the tensor is full. Requires tensor.data and at least one value;
// supports the types of EncodeDoubles.
void RepeatFromDoubles(std::span<const double> values, const Tensor& tensor, Device& device, Stream& stream);

}  // namespace autocfg::trainer
