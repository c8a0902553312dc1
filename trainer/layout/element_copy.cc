#include "trainer/layout/element_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/bf16.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

template <typename T, typename Convert>
void Encode(std::span<const double> values, char* to, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T element = convert(values[i]);
    std::memcpy(to + i * sizeof(T), &element, sizeof(T));
  }
}

std::vector<char> Encoded(std::span<const double> values, DType type) {
  std::vector<char> bytes(values.size() * static_cast<std::size_t>(SizeOf(type)));
  EncodeDoubles(values, type, bytes.data());
  return bytes;
}

}  // namespace

void EncodeDoubles(std::span<const double> values, DType type, char* to) {
  switch (type) {
    case DType::kF64: return Encode<double>(values, to, [](double v) { return v; });
    case DType::kF32: return Encode<float>(values, to, [](double v) { return static_cast<float>(v); });
    case DType::kBF16:
      return Encode<Bf16Bits>(values, to, [](double v) { return ToBf16(static_cast<float>(v)); });
    default: throw NotSupported(fmt::format("cannot copy numbers to tensors of type {}", Name(type)));
  }
}

void CopyFromDoubles(std::span<const double> values, const Tensor& tensor, std::int64_t offset,
                     Device& device, Stream& stream) {
  const std::int64_t width = SizeOf(tensor.dtype);
  char* destination = tensor.As<char>() + offset * width;
  if (tensor.dtype == DType::kF64) {
    device.CopyFromHost(destination, values.data(), static_cast<std::int64_t>(values.size()) * width, stream);
    return;
  }
  const std::vector<char> encoded = Encoded(values, tensor.dtype);
  device.CopyFromHost(destination, encoded.data(), static_cast<std::int64_t>(encoded.size()), stream);
}

void RepeatFromDoubles(std::span<const double> values, const Tensor& tensor, Device& device, Stream& stream) {
  const std::vector<char> once = Encoded(values, tensor.dtype);
  const std::int64_t bytes = tensor.Bytes();
  std::int64_t done = std::min(static_cast<std::int64_t>(once.size()), bytes);
  if (done > 0) device.CopyFromHost(tensor.data, once.data(), done, stream);
  while (done < bytes) {  // the filled part is always a whole number of repetitions
    const std::int64_t more = std::min(done, bytes - done);
    device.CopyWithin(tensor.As<char>() + done, tensor.data, more, stream);
    done += more;
  }
}

}  // namespace autocfg::trainer
