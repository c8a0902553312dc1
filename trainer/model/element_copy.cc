#include "trainer/model/element_copy.h"

#include <fmt/format.h>

#include <vector>

#include "kernels/bf16.h"
#include "trainer/errors.h"

namespace autocfg {

void CopyFromDoubles(std::span<const double> values, const Tensor& tensor, std::int64_t offset,
                     Device& device, Stream& stream) {
  const std::int64_t width = SizeOf(tensor.dtype);
  const std::int64_t bytes = static_cast<std::int64_t>(values.size()) * width;
  char* destination = tensor.As<char>() + offset * width;
  if (tensor.dtype == DType::kF64) {
    device.CopyFromHost(destination, values.data(), bytes, stream);
    return;
  }
  if (tensor.dtype == DType::kBF16) {
    std::vector<Bf16Bits> rounded;
    rounded.reserve(values.size());
    for (const double value : values) rounded.push_back(ToBf16(static_cast<float>(value)));
    device.CopyFromHost(destination, rounded.data(), bytes, stream);
    return;
  }
  if (tensor.dtype != DType::kF32) throw NotSupported(fmt::format("numbers are not copied to tensors of type {}", Name(tensor.dtype)));
  const std::vector<float> rounded(values.begin(), values.end());
  device.CopyFromHost(destination, rounded.data(), bytes, stream);
}

}  // namespace autocfg
