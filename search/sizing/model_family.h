// The models that `autocfg size` chooses from: one shape for each size, from about 100 million to a trillion
// parameters, and the batch that each is trained with by default. Pure functions, thread-safe.
//
// The rule, with where published models agree with it:
//
// - head_dim is 128, as in GPT-3 from 6.7B on (Brown et al. 2020, table 2.1) and Llama 3 from 8B on. So heads
//   = hidden / 128.
// - layers = hidden / 128, but at least 12 and at most 128. So it is in GPT-3 125M (768: 12) and 175B (12288:
//   96), Llama 3.2 1B (2048: 16), Llama 3 8B (4096: 32), Llama 2 13B (5120: 40) and the trillion parameters
//   of Megatron (25600: 128; Narayanan et al. 2021, table 1). Llama 3 405B (16384: 126) is near.
// - ffn_hidden = 3.5 hidden, as in Llama 3 8B and 70B, with swiglu, rmsnorm and rope (theta 500000).
// - 8 heads for keys and values, as in Llama 3, where that divides the heads; else 4, or all.
// - The vocabulary is that of Llama 3, 128256. Up to a hidden of 3072, embedding and output layer are tied,
//   as in Llama 3.2 1B and 3B; else they would be a third of the model and more.
// - hidden is 512, 768, 1024, then a multiple of 512, so that tp=4 divides the heads; above 6144 a multiple
//   of 1024, for tp=8.
#pragma once

#include <cstdint>
#include <vector>

#include "search/plan/model_spec.h"

namespace autocfg {

// Returns the models, smallest first, for sequences of `seq_len` tokens. They are complete and valid.
std::vector<ModelSpec> FamilyOfSizes(std::int64_t seq_len);

// Returns the default tokens of a step for a model of so many parameters. Below 50 billion as the models of
// Brown et al. 2020, table 2.1: 0.5 million below 1 billion parameters, 1 million below 5 billion, else 2
// million. From there on 4 million, as Llama 2 (Touvron et al. 2023); GPT-3 175B took 3.2 million.
std::int64_t DefaultBatchTokens(std::int64_t parameters);

// Returns the sequences of a step nearest to `tokens` that ranks can share out: a power of two times the odd
// part of `gpus`, so that every power of two of sequences and every divisor of `gpus` up to there divides it.
// The nearest by ratio; at least the odd part.
std::int64_t GlobalBatchNear(std::int64_t tokens, std::int64_t seq_len, std::int64_t gpus);

// Tokens of a compute-optimal run per parameter of the model (Hoffmann et al. 2022, table 3: 20 to 22 from
// 0.4 billion to a trillion parameters).
inline constexpr double kOptimalTokensPerParameter = 20;

}  // namespace autocfg
