// Element types of tensors. Plain values, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace autocfg {

enum class DType : std::uint8_t { kF32, kF64, kBF16, kF16, kI32, kI8 };

// Returns the bytes of one element.
constexpr std::int64_t SizeOf(DType type) {
  switch (type) {
    case DType::kF64: return 8;
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBF16:
    case DType::kF16: return 2;
    case DType::kI8: return 1;
  }
  return 0;
}

// Converts to "fp32", "fp64", "bf16", "fp16", "int32" or "int8".
std::string_view Name(DType type);
std::optional<DType> ParseDType(std::string_view name);

}  // namespace autocfg
