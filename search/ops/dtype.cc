#include "search/ops/dtype.h"

namespace autocfg {

std::string_view Name(DType type) {
  switch (type) {
    case DType::kF32: return "fp32";
    case DType::kF64: return "fp64";
    case DType::kBF16: return "bf16";
    case DType::kF16: return "fp16";
    case DType::kI32: return "int32";
    case DType::kI8: return "int8";
  }
  return "unknown";
}

std::optional<DType> ParseDType(std::string_view name) {
  for (DType type : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI32, DType::kI8}) {
    if (Name(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace autocfg
