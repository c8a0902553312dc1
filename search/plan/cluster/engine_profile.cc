#include "search/plan/cluster/engine_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

using Profile = EngineProfile;

template <auto kMember>
constexpr auto EngineRow(std::string_view name, double least = 0, double most = 1) {
  return base::FieldOf<kMember>({.name = name, .least = least, .most = most});
}

constexpr base::Field<EngineProfile> kEngineFields[] = {
    base::FieldOf<&Profile::name>({.name = "name", .required = true}),
    EngineRow<&Profile::host_op_s>("host_op_s"),
    EngineRow<&Profile::matmul>("matmul", 0.05, 1.5),
    EngineRow<&Profile::narrow_matmul>("narrow_matmul", 0.05, 1.5),
    EngineRow<&Profile::matmul_k_half>("matmul_k_half", 0, 100),
    EngineRow<&Profile::memory>("memory", 0.05, 1.5),
    EngineRow<&Profile::intra_node>("intra_node", 0.05, 1.5),
    EngineRow<&Profile::inter_node>("inter_node", 0.05, 1.5),
    EngineRow<&Profile::forward_passes>("forward_passes", 0, 1000),
    EngineRow<&Profile::backward_passes>("backward_passes", 0, 1000),
    EngineRow<&Profile::recomputes_whole_layers>("recomputes_whole_layers"),
    EngineRow<&Profile::hides_backward_gathers>("hides_backward_gathers"),
    EngineRow<&Profile::overlaps_gradients>("overlaps_gradients"),
    EngineRow<&Profile::overlaps_parameters>("overlaps_parameters"),
    EngineRow<&Profile::splits_by_weight>("splits_by_weight"),
    EngineRow<&Profile::step_s>("step_s"),
    EngineRow<&Profile::bf16_gradient_bytes>("bf16_gradient_bytes", 0, 64),
    EngineRow<&Profile::fp16_gradient_bytes>("fp16_gradient_bytes", 0, 64),
    EngineRow<&Profile::update_bytes>("update_bytes", 0, 64),
    EngineRow<&Profile::updated_at_once>("updated_at_once", 0, 1e15),
    EngineRow<&Profile::pools_activations>("pools_activations"),
    EngineRow<&Profile::keeps_operands>("keeps_operands"),
    EngineRow<&Profile::gathered_inputs>("gathered_inputs", 0, 100),
    EngineRow<&Profile::recompute_chunk>("recompute_chunk", 1, 1e6),
    EngineRow<&Profile::logit_bytes>("logit_bytes", 0, 64),
    EngineRow<&Profile::activation_share>("activation_share", 0, 10),
    EngineRow<&Profile::library_bytes>("library_bytes", 0, 1e12),
    EngineRow<&Profile::allocator_share>("allocator_share"),
    EngineRow<&Profile::memory_error>("memory_error", 0, 0.5),
    EngineRow<&Profile::overhead_bytes>("overhead_bytes", 0, 1e12),
};

}  // namespace

const EngineProfile& OwnEngine() {
  static const EngineProfile kOwn;
  return kOwn;
}

std::string EngineText(const EngineProfile& engine) {
  return engine.settings.empty() ? engine.name : fmt::format("{}:{}", engine.name, engine.settings);
}

std::span<const base::Field<EngineProfile>> EngineFields() { return kEngineFields; }

absl::Status CheckEngineName(std::string_view name) {
  constexpr std::size_t kMostBytes = 40;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_plain = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kMostBytes && is_letter(name.front()) &&
      std::all_of(name.begin(), name.end(), is_plain))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("'{}' is no engine's name; it has 1 to {} letters, digits, '-', '_' and '.', the first a "
                  "letter",
                  base::Printable(name), kMostBytes));
}

absl::Status Validate(const EngineProfile& engine) {
  for (const base::Field<EngineProfile>& figure : kEngineFields) {
    const std::optional<base::FieldValue> given = figure.Get(engine);
    double value = 0;
    if (given && figure.type == base::FieldType::kNumber)
      value = std::get<double>(*given);
    else if (given && figure.type == base::FieldType::kSize)
      value = static_cast<double>(std::get<std::int64_t>(*given));
    else
      continue;
    if (!std::isfinite(value) || value < figure.least || value > figure.most) {
      return base::InvalidArgument("engine", fmt::format("{} is {:g}; it must be from {:g} to {:g}",
                                                         figure.name, value, figure.least, figure.most));
    }
  }
  return absl::OkStatus();
}

}  // namespace autocfg
