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

template <typename T>
std::vector<char> BytesOf(const std::vector<T>& elements) {
  std::vector<char> bytes(elements.size() * sizeof(T));
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

// As elements of the type.
std::vector<char> Converted(std::span<const double> values, DType type) {
  if (type == DType::kF64) return BytesOf(std::vector<double>(values.begin(), values.end()));
  if (type == DType::kF32) return BytesOf(std::vector<float>(values.begin(), values.end()));
  if (type != DType::kBF16)
    throw NotSupported(fmt::format("numbers are not copied to tensors of type {}", Name(type)));
  std::vector<Bf16Bits> rounded;
  rounded.reserve(values.size());
  for (const double value : values) rounded.push_back(ToBf16(static_cast<float>(value)));
  return BytesOf(rounded);
}

}  // namespace

void CopyFromDoubles(std::span<const double> values, const Tensor& tensor, std::int64_t offset,
                     Device& device, Stream& stream) {
  const std::int64_t width = SizeOf(tensor.dtype);
  char* destination = tensor.As<char>() + offset * width;
  if (tensor.dtype == DType::kF64) {
    device.CopyFromHost(destination, values.data(), static_cast<std::int64_t>(values.size()) * width, stream);
    return;
  }
  const std::vector<char> converted = Converted(values, tensor.dtype);
  device.CopyFromHost(destination, converted.data(), static_cast<std::int64_t>(converted.size()), stream);
}

void RepeatFromDoubles(std::span<const double> values, const Tensor& tensor, Device& device, Stream& stream) {
  const std::vector<char> once = Converted(values, tensor.dtype);
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
