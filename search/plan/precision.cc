#include "search/plan/precision.h"

#include <array>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg {
namespace {

constexpr Precision Uniform(DType type) {
  return Precision{type, type, type, type, type, type, false, false};
}

constexpr Precision Mixed(DType type, bool fp8_products = false) {
  return Precision{type, type, DType::kF32, DType::kF32, DType::kF32, DType::kF32, fp8_products, true};
}

struct NamedPrecision {
  std::string_view name;
  Precision precision;
};
constexpr std::array<NamedPrecision, 5> kPrecisions = {{
    {"fp64", Uniform(DType::kF64)},
    {"fp32", Uniform(DType::kF32)},
    {"bf16", Mixed(DType::kBF16)},
    {"fp16", Mixed(DType::kF16)},
    {"fp8", Mixed(DType::kBF16, true)},
}};

}  // namespace

std::optional<Precision> ParsePrecision(std::string_view name) {
  for (const NamedPrecision& known : kPrecisions) {
    if (known.name == name) return known.precision;
  }
  return std::nullopt;
}

std::string UnknownPrecision(std::string_view name) {
  std::vector<std::string_view> names;
  names.reserve(std::size(kPrecisions));
  for (const NamedPrecision& known : kPrecisions) names.push_back(known.name);
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("unknown precision '{}'; expected {} or {}", base::Printable(name),
                     fmt::join(names, ", "), last);
}

std::string_view Name(const Precision& precision) {
  for (const NamedPrecision& known : kPrecisions) {
    if (known.precision == precision) return known.name;
  }
  return "custom";
}

}  // namespace autocfg
