#include "trainer/model/element_copy.h"

#include <vector>

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
  const std::vector<float> rounded(values.begin(), values.end());
  device.CopyFromHost(destination, rounded.data(), bytes, stream);
}

}  // namespace autocfg
