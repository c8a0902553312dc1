#include "search/plan/rotary/rope_scaling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <variant>

#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

using Scaling = RopeScalingParameters;

constexpr std::array kOfLlama3 = {RopeScaling::kLlama3};
constexpr std::array kOfYarn = {RopeScaling::kYarn};
constexpr std::array kOfLongRope = {RopeScaling::kLongRope};
constexpr std::array kOfYarnAndLongRope = {RopeScaling::kYarn, RopeScaling::kLongRope};
constexpr std::array kOfAllButLongRope = {RopeScaling::kLinear, RopeScaling::kDynamic, RopeScaling::kYarn,
                                          RopeScaling::kLlama3};

constexpr double kMaxScalingFactor = 1e6;
constexpr double kMaxOriginalTokens = 1e8;

template <auto kMember>
constexpr RopeScalingField ScalingRow(base::FieldTraits traits, std::span<const RopeScaling> needed_by,
                                      std::span<const RopeScaling> taken_by = {}) {
  return {base::FieldOf<kMember>(traits), needed_by, taken_by};
}

// A positive number up to kMaxScalingFactor.
template <auto kMember>
constexpr RopeScalingField ScalingNumberRow(std::string_view name, std::string_view summary,
                                            std::span<const RopeScaling> needed_by,
                                            std::span<const RopeScaling> taken_by = {},
                                            std::string_view default_note = "") {
  return ScalingRow<kMember>(
      {.name = name, .most = kMaxScalingFactor, .summary = summary, .default_note = default_note}, needed_by,
      taken_by);
}

constexpr RopeScalingField kScalingFields[] = {
    ScalingRow<&Scaling::factor>({.name = "factor",
                                  .least = 1,
                                  .most = kMaxScalingFactor,
                                  .summary = "how much longer sequences become",
                                  .default_note = "`max_seq_len` / `original_max_position_embeddings`"},
                                 kOfAllButLongRope, kOfLongRope),
    ScalingRow<&Scaling::original_max_position_embeddings>(
        {.name = "original_max_position_embeddings",
         .least = 2,
         .most = kMaxOriginalTokens,
         .summary = "tokens of the longest sequence before the scaling",
         .default_note = "`max_seq_len`"},
        kOfLlama3, kOfYarnAndLongRope),
    ScalingNumberRow<&Scaling::low_freq_factor>(
        "low_freq_factor", "frequencies of fewer turns than this in an original sequence are divided",
        kOfLlama3),
    ScalingNumberRow<&Scaling::high_freq_factor>(
        "high_freq_factor", "frequencies of more turns than this in an original sequence stay", kOfLlama3),
    ScalingNumberRow<&Scaling::beta_fast>(
        "beta_fast", "frequencies of more turns than this in an original sequence stay", {}, kOfYarn),
    ScalingNumberRow<&Scaling::beta_slow>(
        "beta_slow", "frequencies of fewer turns than this in an original sequence are divided", {}, kOfYarn),
    ScalingNumberRow<&Scaling::attention_factor>("attention_factor", "multiplies cosines and sines", {},
                                                 kOfYarnAndLongRope, "follows from `factor`"),
    ScalingNumberRow<&Scaling::mscale>(
        "mscale", "with `mscale_all_dim`: what `attention_factor` follows from", {}, kOfYarn, "none"),
    ScalingNumberRow<&Scaling::mscale_all_dim>("mscale_all_dim", "the same", {}, kOfYarn, "none"),
    ScalingRow<&Scaling::truncate>(
        {.name = "truncate",
         .summary = "the bounds that `beta_fast` and `beta_slow` set are rounded to whole pairs"},
        {}, kOfYarn),
    ScalingNumberRow<&Scaling::short_factor>(
        "short_factor", "divides each frequency in sequences up to `original_max_position_embeddings`",
        kOfLongRope),
    ScalingNumberRow<&Scaling::long_factor>("long_factor", "divides each frequency in longer sequences",
                                            kOfLongRope),
};

absl::Status InvalidScaling(std::string_view field, std::string_view problem) {
  return base::InvalidArgument("model", fmt::format("rope_scaling: {} {}", field, problem));
}

absl::Status CheckScalingNumber(const RopeScalingField& field, double number) {
  const bool within = number >= field.least && number <= field.most && (field.least > 0 || number > 0);
  if (within) return absl::OkStatus();
  return InvalidScaling(
      field.name,
      fmt::format("is {:g}; it must be {}, at most {:g}", number,
                  field.least > 0 ? fmt::format("at least {:g}", field.least) : "positive", field.most));
}

absl::Status CheckScalingList(const RopeScalingField& field, const std::vector<double>& list,
                              std::int64_t rotary_dims) {
  if (static_cast<std::int64_t>(list.size()) != rotary_dims / 2) {
    return InvalidScaling(field.name,
                          fmt::format("has {} numbers; give {}, one for each pair of the {} dims of a "
                                      "head that rotate",
                                      list.size(), rotary_dims / 2, rotary_dims));
  }
  for (const double number : list) AUTOCFG_RETURN_IF_ERROR(CheckScalingNumber(field, number));
  return absl::OkStatus();
}

absl::Status CheckScalingField(RopeScaling scaling, const RopeScalingField& field, const Scaling& parameters,
                               std::int64_t rotary_dims) {
  if (field.IsDefault(parameters)) {
    if (std::ranges::find(field.needed_by, scaling) == field.needed_by.end()) return absl::OkStatus();
    return InvalidScaling(field.name, fmt::format("is missing; {} needs it", Name(scaling)));
  }
  if (!Has(scaling, field))
    return InvalidScaling(field.name, fmt::format("is not a parameter of {}; leave it out", Name(scaling)));
  const base::FieldValue value = *field.Get(parameters);
  if (const auto* list = std::get_if<std::vector<double>>(&value))
    return CheckScalingList(field, *list, rotary_dims);
  if (const auto* size = std::get_if<std::int64_t>(&value))
    return CheckScalingNumber(field, static_cast<double>(*size));
  if (const auto* number = std::get_if<double>(&value)) return CheckScalingNumber(field, *number);
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(RopeScaling scaling) { return kRopeScalingNames[static_cast<std::size_t>(scaling)]; }

RopeScalingParameters Llama3Scaling(double factor) {
  return {.factor = factor,
          .original_max_position_embeddings = 8192,
          .low_freq_factor = 1,
          .high_freq_factor = 4};
}

std::span<const RopeScalingField> RopeScalingFields() { return kScalingFields; }

bool Has(RopeScaling scaling, const RopeScalingField& field) {
  const auto in = [scaling](std::span<const RopeScaling> set) {
    return std::ranges::find(set, scaling) != set.end();
  };
  return in(field.needed_by) || in(field.taken_by);
}

absl::Status Validate(RopeScaling scaling, const RopeScalingParameters& parameters,
                      std::int64_t rotary_dims) {
  if (parameters == RopeScalingParameters{}) return absl::OkStatus();
  for (const RopeScalingField& field : kScalingFields)
    AUTOCFG_RETURN_IF_ERROR(CheckScalingField(scaling, field, parameters, rotary_dims));
  if (scaling == RopeScaling::kLlama3 && parameters.low_freq_factor >= parameters.high_freq_factor) {
    return InvalidScaling("low_freq_factor",
                          fmt::format("is {:g}; it must be below high_freq_factor, which is {:g}",
                                      parameters.low_freq_factor, parameters.high_freq_factor));
  }
  if (scaling == RopeScaling::kYarn && parameters.beta_slow >= parameters.beta_fast) {
    return InvalidScaling("beta_slow", fmt::format("is {:g}; it must be below beta_fast, which is {:g}",
                                                   parameters.beta_slow, parameters.beta_fast));
  }
  if (scaling == RopeScaling::kDynamic && rotary_dims < 4) {
    return base::InvalidArgument(
        "model",
        fmt::format("rope_scaling is dynamic, but only {} dims of a head rotate; it needs at least 4",
                    rotary_dims));
  }
  return absl::OkStatus();
}

}  // namespace autocfg
