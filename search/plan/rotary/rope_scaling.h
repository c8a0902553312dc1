// Scalings of rotary frequencies for sequences longer than those of the first training, with the names and
// the parameters of transformers. Plain values; the frequencies are in search/shapes/rotary_frequencies.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/fields.h"

namespace autocfg {

// kLinear: every frequency divided by `factor` (Chen et al. 2023). kDynamic: a larger theta in sequences
// beyond max_seq_len. kYarn: Peng et al. 2023. kLongRope: a factor of each frequency (Ding et al. 2024).
// kLlama3: low frequencies divided by `factor`, as in Llama 3.1.
enum class RopeScaling : std::uint8_t { kNone, kLinear, kDynamic, kYarn, kLongRope, kLlama3 };
inline constexpr int kRopeScalingCount = static_cast<int>(RopeScaling::kLlama3) + 1;

// Names as in JSON.
inline constexpr std::array<std::string_view, kRopeScalingCount> kRopeScalingNames = {
    "none", "linear", "dynamic", "yarn", "longrope", "llama3"};
std::string_view Name(RopeScaling scaling);

// What each means, and of which scaling it is, is in its row (rope_scaling.cc). 0: not given.
struct RopeScalingParameters {
  double factor = 0;
  std::int64_t original_max_position_embeddings = 0;
  double low_freq_factor = 0;
  double high_freq_factor = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 0;
  double mscale = 0;
  double mscale_all_dim = 0;
  bool truncate = true;
  std::vector<double> short_factor = {};
  std::vector<double> long_factor = {};

  bool operator==(const RopeScalingParameters&) const = default;
};

// Returns the parameters of llama3 that Llama 3.1 and its successors share, with a factor of their own.
RopeScalingParameters Llama3Scaling(double factor);

struct RopeScalingField : base::Field<RopeScalingParameters> {
  std::span<const RopeScaling> needed_by = {};
  std::span<const RopeScaling> taken_by = {};  // where it may be left out
};

// All parameters, in the order in which JSON has them.
std::span<const RopeScalingField> RopeScalingFields();

// Returns whether the scaling has the parameter.
bool Has(RopeScaling scaling, const RopeScalingField& field);

// InvalidArgument, naming the parameter, for one that the scaling lacks or needs, one outside its bounds, or
// lists that do not have a number for each pair of `rotary_dims`. A scaling without any parameter is valid: a
// name alone, which suffices for predictions.
absl::Status Validate(RopeScaling scaling, const RopeScalingParameters& parameters, std::int64_t rotary_dims);

}  // namespace autocfg
