// The frequencies by which a model's queries and keys rotate. Pure functions, thread-safe.
#pragma once

#include <cstdint>

#include "search/ops/rotary_frequencies.h"
#include "search/plan/model_spec.h"

namespace autocfg {

// Returns the frequencies of layers of a kind, in sequences of `seq_len` tokens. A kind with a rope_theta of
// its own has plain frequencies. The others have those of the model, as transformers computes them
// (modeling_rope_utils.py), but in double precision. Requires a valid model with rotary positions, and the
// parameters of its rope_scaling (CheckEngineSupports).
RotaryFrequencies FrequenciesOf(const ModelSpec& model, std::int64_t seq_len, const LayerRun& kind = {});

}  // namespace autocfg
