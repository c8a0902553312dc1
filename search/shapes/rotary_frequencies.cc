// Every scaling but the dynamic one multiplies the frequencies theta^(-2i/r). So theta stays, and a scale of
// each is returned. A frequency f makes n f / 2 pi turns in n tokens.
#include "search/shapes/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

namespace autocfg {
namespace {

using Scaling = RopeScalingParameters;

double OriginalLength(const ModelSpec& model) {
  const std::int64_t given = model.rope_scaling_parameters.original_max_position_embeddings;
  return static_cast<double>(given != 0 ? given : model.max_seq_len);
}

// Returns the multiplier scale(i) of each pair i of `dims`.
template <typename Scale>
std::vector<double> ScalesOf(std::int64_t dims, Scale scale) {
  std::vector<double> scales;
  for (std::int64_t i = 0; i < dims / 2; ++i) scales.push_back(scale(i));
  return scales;
}

double Llama3Scale(const Scaling& p, double turns) {
  if (turns < p.low_freq_factor) return 1 / p.factor;
  if (turns > p.high_freq_factor) return 1;
  const double kept = (turns - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor);
  return (1 - kept) / p.factor + kept;
}

std::vector<double> YarnScales(const Scaling& p, double theta, double length, std::int64_t dims) {
  // The pair, as a real number, that makes so many turns.
  const auto pair_of = [&](double turns) {
    return static_cast<double>(dims) * std::log(length / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = pair_of(p.beta_fast), high = pair_of(p.beta_slow);
  if (p.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;
  return ScalesOf(dims, [&](std::int64_t i) {
    const double divided = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    return divided / p.factor + (1 - divided);
  });
}

double YarnFactor(const Scaling& p) {
  if (p.attention_factor != 0) return p.attention_factor;
  const auto growth = [&p](double scale) { return 0.1 * scale * std::log(p.factor) + 1; };
  if (p.mscale != 0 && p.mscale_all_dim != 0) return growth(p.mscale) / growth(p.mscale_all_dim);
  return growth(1);
}

double LongRopeFactor(const Scaling& p, double length, double longest) {
  if (p.attention_factor != 0) return p.attention_factor;
  const double factor = p.factor != 0 ? p.factor : longest / length;
  return factor <= 1 || length <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(length));
}

}  // namespace

RotaryFrequencies FrequenciesOf(const ModelSpec& model, std::int64_t seq_len, const LayerRun& kind) {
  if (kind.rope_theta != 0) return {.theta = kind.rope_theta};
  const Scaling& p = model.rope_scaling_parameters;
  const std::int64_t dims = RotaryDims(model);
  const double length = OriginalLength(model), longest = static_cast<double>(model.max_seq_len);
  RotaryFrequencies plain{.theta = model.rope_theta};
  RotaryFrequencies scaled = plain;
  switch (model.rope_scaling) {
    case RopeScaling::kNone: break;
    case RopeScaling::kLinear:
      scaled.scales = ScalesOf(dims, [&p](std::int64_t /*pair*/) { return 1 / p.factor; });
      break;
    case RopeScaling::kDynamic: {
      const double growth =
          p.factor * std::max(static_cast<double>(seq_len), longest) / longest - (p.factor - 1);
      const auto d = static_cast<double>(dims);
      scaled.theta *= std::pow(growth, d / (d - 2));
      break;
    }
    case RopeScaling::kYarn:
      scaled.scales = YarnScales(p, model.rope_theta, length, dims);
      scaled.factor = YarnFactor(p);
      break;
    case RopeScaling::kLongRope: {
      const std::vector<double>& factors =
          static_cast<double>(seq_len) > length ? p.long_factor : p.short_factor;
      scaled.scales =
          ScalesOf(dims, [&](std::int64_t i) { return 1 / factors[static_cast<std::size_t>(i)]; });
      scaled.factor = LongRopeFactor(p, length, longest);
      break;
    }
    case RopeScaling::kLlama3:
      scaled.scales = ScalesOf(dims, [&](std::int64_t i) {
        return Llama3Scale(p, length * plain.At(i, dims) / (2 * std::numbers::pi));
      });
      break;
  }
  return scaled;
}

}  // namespace autocfg
