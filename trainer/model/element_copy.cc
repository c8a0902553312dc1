#include "trainer/model/element_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/bf16.h"
#include "trainer/errors.h"

namespace autocfg {
namespace {

// What RepeatFromDoubles copies at once. More than passes through a device's pinned buffers: of those there
// would soon be many.
constexpr std::int64_t kRepeatBytes = std::int64_t{32} << 20;

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
    default: throw NotSupported(fmt::format("numbers are not copied to tensors of type {}", Name(type)));
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
  const auto length = static_cast<std::int64_t>(once.size());
  const std::int64_t times =
      std::min(std::max<std::int64_t>(kRepeatBytes / length, 1), (tensor.Bytes() + length - 1) / length);
  std::vector<char> repeated;
  repeated.reserve(static_cast<std::size_t>(times * length));
  for (std::int64_t i = 0; i < times; ++i) repeated.insert(repeated.end(), once.begin(), once.end());
  const auto most = static_cast<std::int64_t>(repeated.size());
  for (std::int64_t first = 0; first < tensor.Bytes(); first += most) {
    device.CopyFromHost(tensor.As<char>() + first, repeated.data(), std::min(most, tensor.Bytes() - first),
                        stream);
  }
}

}  // namespace autocfg
