#include "search/plan/states/precision.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/ops/op_desc.h"

namespace autocfg {
namespace {

constexpr Precision Uniform(DType type) {
  return {.parameters = type, .compute = type, .statistics = type, .gradients = type, .moments = type};
}

constexpr Precision Mixed(DType type, ProductFormat products = ProductFormat::kCompute) {
  return {.parameters = type, .compute = type, .master = DType::kF32, .products = products};
}

struct NamedPrecision {
  std::string_view name;
  Precision precision;
};
constexpr std::array<NamedPrecision, 8> kBases = {{
    {"fp64", Uniform(DType::kF64)},
    {"fp32", Uniform(DType::kF32)},
    {"bf16", Mixed(DType::kBF16)},
    {"fp16", Mixed(DType::kF16)},
    {"fp8", Mixed(DType::kBF16, ProductFormat::kFp8)},
    {"fp8_block", Mixed(DType::kBF16, ProductFormat::kFp8Block)},
    {"mxfp8", Mixed(DType::kBF16, ProductFormat::kMxfp8)},
    {"nvfp4", Mixed(DType::kBF16, ProductFormat::kNvfp4)},
}};

const NamedPrecision& BaseOf(const Precision& precision) {
  for (const NamedPrecision& base : kBases) {
    if (base.precision.compute == precision.compute && base.precision.products == precision.products)
      return base;
  }
  return kBases[1];
}

constexpr std::string_view kNoMaster = "none";

std::string_view NameOrNone(std::optional<DType> type) { return type ? Name(*type) : kNoMaster; }

// The type of a state in the text form. A new one is a row.
struct StateType {
  std::string_view key;
  bool may_be_none;
  std::optional<DType> (*get)(const Precision&);
  void (*set)(Precision&, std::optional<DType>);
  bool (*may_be)(const Precision& base, DType type);
};

bool IsNarrow(DType type) { return type == DType::kBF16 || type == DType::kF16; }

constexpr std::array<StateType, 3> kStateTypes = {{
    {"grads", false, [](const Precision& p) { return std::optional(p.gradients); },
     [](Precision& p, std::optional<DType> type) { p.gradients = *type; },
     [](const Precision& base, DType type) {
       if (base.compute == DType::kF32) return type == DType::kF32 || type == DType::kBF16;
       return type == base.gradients || type == base.compute;
     }},
    {"moments", false, [](const Precision& p) { return std::optional(p.moments); },
     [](Precision& p, std::optional<DType> type) { p.moments = *type; },
     [](const Precision& base, DType type) {
       if (base.compute == DType::kF64) return type == DType::kF64;
       return type == DType::kF32 || IsNarrow(type) || type == DType::kI8;
     }},
    {"master", true, [](const Precision& p) { return p.master; },
     [](Precision& p, std::optional<DType> type) { p.master = type; },
     [](const Precision& base, DType type) {
       return IsNarrow(base.compute) && (type == DType::kF32 || type == base.compute || type == DType::kF16);
     }},
}};

bool EngineKeeps(DType type) { return type != DType::kF16 && type != DType::kI8; }

// `run`: without the types that are predicted only.
std::string AcceptedTypes(const NamedPrecision& base, const StateType& state, bool run = false) {
  std::vector<std::string> names;
  for (const DType type : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    if (state.may_be(base.precision, type) && (!run || EngineKeeps(type))) names.emplace_back(Name(type));
  }
  if (state.may_be_none) names.emplace_back(kNoMaster);
  return base::ChoiceText(names);
}

absl::Status SetState(const NamedPrecision& base, std::string_view text, std::vector<std::string_view>& given,
                      Precision& precision) {
  const std::size_t equals = text.find('=');
  const std::string_view key = text.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  for (const StateType& state : kStateTypes) {
    if (state.key != key) continue;
    for (const std::string_view other : given) {
      if (other == key) return absl::InvalidArgumentError(fmt::format("precision names {} twice", key));
    }
    given.push_back(state.key);
    const std::optional<DType> type = ParseDType(value);
    if (type ? !state.may_be(base.precision, *type) : !(state.may_be_none && value == kNoMaster)) {
      return absl::InvalidArgumentError(fmt::format("{}={} is not possible in {}; expected {}", key,
                                                    base::Printable(value), base.name,
                                                    AcceptedTypes(base, state)));
    }
    state.set(precision, type);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("unknown state '{}' in a precision; expected grads=TYPE, moments=TYPE or master=TYPE",
                  base::Printable(text)));
}

}  // namespace

absl::StatusOr<Precision> ParsePrecision(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  for (const NamedPrecision& base : kBases) {
    if (base.name != name) continue;
    Precision precision = base.precision;
    if (colon == std::string_view::npos) return precision;
    std::vector<std::string_view> given;
    std::string_view rest = text.substr(colon);
    while (!rest.empty()) {
      rest.remove_prefix(1);  // the colon, or a comma
      const std::size_t comma = std::min(rest.find(','), rest.size());
      AUTOCFG_RETURN_IF_ERROR(SetState(base, rest.substr(0, comma), given, precision));
      rest.remove_prefix(comma);
    }
    return precision;
  }
  return absl::InvalidArgumentError(UnknownBase(name));
}

std::string UnknownBase(std::string_view name) {
  std::vector<std::string> names;
  names.reserve(kBases.size());
  for (const NamedPrecision& base : kBases) names.emplace_back(base.name);
  return fmt::format("unknown precision '{}'; expected {}", base::Printable(name), base::ChoiceText(names));
}

std::string_view BaseName(const Precision& precision) { return BaseOf(precision).name; }

std::string PrecisionText(const Precision& precision) {
  const NamedPrecision& base = BaseOf(precision);
  std::string text(base.name);
  char separator = ':';
  for (const StateType& state : kStateTypes) {
    const std::optional<DType> type = state.get(precision);
    if (type == state.get(base.precision)) continue;
    text += fmt::format("{}{}={}", separator, state.key, NameOrNone(type));
    separator = ',';
  }
  return text;
}

std::optional<DType> GradientsOfOps(const Precision& precision) {
  if (precision.gradients == GradientType(precision.compute)) return std::nullopt;
  return precision.gradients;
}

absl::Status CheckEngineRuns(const Precision& precision) {
  if (precision.products != ProductFormat::kCompute) {
    return absl::UnimplementedError(
        fmt::format("running {} is not supported yet; give fp64, fp32, bf16 or fp16", BaseName(precision)));
  }
  for (const StateType& state : kStateTypes) {
    const std::optional<DType> type = state.get(precision);
    if (!type || EngineKeeps(*type)) continue;
    return absl::UnimplementedError(fmt::format("{}={} can be predicted, not run; give {}", state.key,
                                                Name(*type),
                                                AcceptedTypes(BaseOf(precision), state, /*run=*/true)));
  }
  return absl::OkStatus();
}

}  // namespace autocfg
