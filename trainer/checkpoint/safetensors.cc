#include "trainer/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::int64_t kMaxHeaderBytes = 100'000'000;  // limit set by the format

// Returns the bytes of an element, or 0 if the format has no such type.
std::int64_t ElementBytes(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL" || dtype == "F8_E4M3" || dtype == "F8_E5M2") return 1;
  return 0;
}

double HalfToDouble(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  double value;
  if (exponent == 0x1f) {
    value =
        mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = mantissa * 0x1p-24;
  } else {
    value = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

template <typename T>
T Load(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::int64_t data_bytes) : path_(path), data_bytes_(data_bytes) {}

  void Parse(const std::string& text, std::map<std::string, StoredTensor>& tensors,
             std::map<std::string, std::string>& metadata) const {
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object())
      throw BadInput(
          fmt::format("{} is not a safetensors file: its header is not a JSON object; give one", path_));
    for (const auto& [name, entry] : json.items()) {
      if (name != kMetadata) {
        tensors.emplace(name, ParseEntry(name, entry));
        continue;
      }
      for (const auto& [key, value] : entry.items()) {
        if (value.is_string()) metadata.emplace(key, value.get<std::string>());
      }
    }
    CheckOverlap(tensors);
  }

 private:
  [[noreturn]] void Fail(const std::string& name, const std::string& what) const {
    throw BadInput(fmt::format("tensor {} of {} {}", base::Printable(name), path_, what));
  }

  std::vector<std::int64_t> Sizes(const std::string& name, const nlohmann::json& entry,
                                  const char* field) const {
    const auto found = entry.find(field);
    if (found == entry.end() || !found->is_array()) Fail(name, fmt::format("has no list \"{}\"", field));
    std::vector<std::int64_t> sizes;
    for (const auto& value : *found) {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > (std::uint64_t{1} << 62)) {
        Fail(name, fmt::format("has a \"{}\" that is not a list of sizes", field));
      }
      sizes.push_back(value.get<std::int64_t>());
    }
    return sizes;
  }

  StoredTensor ParseEntry(const std::string& name, const nlohmann::json& entry) const {
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string())
      Fail(name, "has no \"dtype\"");
    StoredTensor t;
    t.dtype = entry["dtype"].get<std::string>();
    const std::int64_t width = ElementBytes(t.dtype);
    if (width == 0) Fail(name, fmt::format("has the unknown type \"{}\"", base::Printable(t.dtype)));
    t.shape = Sizes(name, entry, "shape");
    const auto offsets = Sizes(name, entry, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      Fail(name, "has invalid \"data_offsets\"; expected begin and end");
    t.begin = offsets[0];
    t.end = offsets[1];
    std::int64_t bytes = width;
    bool overflow = false;
    for (const std::int64_t d : t.shape) overflow |= __builtin_mul_overflow(bytes, d, &bytes);
    if (overflow || bytes != t.end - t.begin) {
      Fail(name, fmt::format("has {} bytes, which does not match its shape [{}] of {}", t.end - t.begin,
                             fmt::join(t.shape, ", "), t.dtype));
    }
    if (t.end > data_bytes_) {
      Fail(name, fmt::format("is cut off: it ends at byte {} of the data, the file holds {}; copy it again",
                             t.end, data_bytes_));
    }
    return t;
  }

  void CheckOverlap(const std::map<std::string, StoredTensor>& tensors) const {
    std::vector<std::pair<const StoredTensor*, const std::string*>> order;
    for (const auto& [name, tensor] : tensors) {
      if (tensor.begin < tensor.end) order.emplace_back(&tensor, &name);
    }
    std::sort(order.begin(), order.end(),
              [](const auto& a, const auto& b) { return a.first->begin < b.first->begin; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i].first->begin < order[i - 1].first->end) {
        Fail(*order[i].second, fmt::format("overlaps tensor {}", base::Printable(*order[i - 1].second)));
      }
    }
  }

  const std::string& path_;
  const std::int64_t data_bytes_;
};

// Returns the JSON header, padded so that the data are aligned. Sets `data_bytes` to their size.
std::string Header(const std::vector<TensorToStore>& tensors,
                   const std::map<std::string, std::string>& metadata, std::int64_t& data_bytes) {
  nlohmann::ordered_json header;
  header[kMetadata] = metadata;
  data_bytes = 0;
  for (const TensorToStore& t : tensors) {
    std::int64_t bytes = SizeOf(t.dtype);
    for (const std::int64_t d : t.shape) bytes *= d;
    header[t.name] = {{"dtype", StoredTypeName(t.dtype)},
                      {"shape", t.shape},
                      {"data_offsets", {data_bytes, data_bytes + bytes}}};
    data_bytes += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::string_view StoredTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "F64";
    case DType::kF32: return "F32";
    case DType::kBF16: return "BF16";
    case DType::kF16: return "F16";
    case DType::kI32: return "I32";
    case DType::kI8: return "I8";
  }
  return "";
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(File::OpenToRead(path)) {
  static_assert(std::endian::native == std::endian::little);
  const std::int64_t size = file_.Size();
  if (size < 8)
    throw BadInput(fmt::format("{} is not a safetensors file: it has {} bytes; give one", path, size));
  std::uint64_t header_bytes = 0;
  file_.ReadAt(0, &header_bytes, 8);
  if (header_bytes > static_cast<std::uint64_t>(kMaxHeaderBytes)) {
    throw BadInput(fmt::format("{} is not a safetensors file: it claims a header of {} bytes; give one", path,
                               header_bytes));
  }
  if (header_bytes > static_cast<std::uint64_t>(size - 8)) {
    throw BadInput(fmt::format("{} is cut off: its header has {} bytes, the file {}; copy it again", path,
                               header_bytes, size));
  }
  std::string header(header_bytes, '\0');
  file_.ReadAt(8, header.data(), static_cast<std::int64_t>(header_bytes));
  data_begin_ = 8 + static_cast<std::int64_t>(header_bytes);
  HeaderReader(path, size - data_begin_).Parse(header, tensors_, metadata_);
}

void SafetensorsFile::Read(const std::string& name, std::int64_t first, std::span<double> out) const {
  const StoredTensor& t = tensors_.at(name);
  const std::int64_t width = ElementBytes(t.dtype);
  if (t.dtype != "F64" && t.dtype != "F32" && t.dtype != "F16" && t.dtype != "BF16") {
    throw BadInput(
        fmt::format("tensor {} of {} has type {}; weights are F64, F32, F16 or BF16", name, path(), t.dtype));
  }
  bytes_.resize(out.size() * width);
  file_.ReadAt(data_begin_ + t.begin + first * width, bytes_.data(),
               static_cast<std::int64_t>(bytes_.size()));
  const unsigned char* from = bytes_.data();
  for (double& value : out) {
    if (t.dtype == "F64") {
      value = Load<double>(from);
    } else if (t.dtype == "F32") {
      value = Load<float>(from);
    } else if (t.dtype == "F16") {
      value = HalfToDouble(Load<std::uint16_t>(from));
    } else {
      value = std::bit_cast<float>(static_cast<std::uint32_t>(Load<std::uint16_t>(from)) << 16);
    }
    from += width;
  }
}

void SafetensorsFile::ReadBytes(const StoredTensor& tensor, std::int64_t first, std::span<char> out) const {
  file_.ReadAt(data_begin_ + tensor.begin + first, out.data(), static_cast<std::int64_t>(out.size()));
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<TensorToStore>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  const std::string header = Header(tensors, metadata, total_bytes_);
  const std::uint64_t length = header.size();
  Append(&length, 8);
  Append(header.data(), static_cast<std::int64_t>(header.size()));
  total_bytes_ += bytes_;
}

void SafetensorsWriter::Append(const void* data, std::int64_t bytes) {
  file_.Append(data, bytes);
  checksum_.Add(data, bytes);
  bytes_ += bytes;
}

void SafetensorsWriter::Finish() {
  if (bytes_ != total_bytes_)
    throw std::logic_error("safetensors: the data are not as long as the header says");
  file_.Finish();
}

void WriteSafetensors(const std::string& path, const std::vector<TensorToStore>& tensors,
                      const std::function<std::span<const char>(std::size_t)>& data) {
  SafetensorsWriter file(path, tensors, {{"format", "pt"}});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::span<const char> bytes = data(i);
    file.Append(bytes.data(), static_cast<std::int64_t>(bytes.size()));
  }
  file.Finish();
}

}  // namespace autocfg::trainer
