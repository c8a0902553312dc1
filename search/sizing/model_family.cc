#include "search/sizing/model_family.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kMostTiedHidden = 3072;

// The steps are about as large, in parameters, as those between neighbours of a published family.
constexpr std::array<std::int64_t, 31> kHidden = {512,   768,   1024,  1536,  2048,  2560,  3072,  3584,
                                                  4096,  4608,  5120,  5632,  6144,  7168,  8192,  9216,
                                                  10240, 11264, 12288, 13312, 14336, 15360, 16384, 17408,
                                                  18432, 19456, 20480, 21504, 22528, 24576, 25600};

std::string FamilyName(std::int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return count < 1e9 ? fmt::format("dense-{:.3g}m", count / 1e6) : fmt::format("dense-{:.4g}b", count / 1e9);
}

ModelSpec FamilyModel(std::int64_t hidden, std::int64_t seq_len) {
  ModelSpec model;
  model.hidden = hidden;
  model.heads = hidden / kHeadDim;
  model.head_dim = kHeadDim;
  model.kv_heads = model.heads % 8 == 0 ? 8 : model.heads % 4 == 0 ? 4 : model.heads;
  model.layers = std::clamp<std::int64_t>(model.heads, 12, 128);
  model.ffn_hidden = hidden * 7 / 2;
  model.vocab = 128256;
  model.max_seq_len = seq_len;
  model.activation = Activation::kSwiGlu;
  model.norm = Norm::kRmsNorm;
  model.position = Position::kRope;
  model.rope_theta = 500000;
  SetBiases(model, false);
  model.tied_embeddings = hidden <= kMostTiedHidden;
  model.name = FamilyName(ParameterCount(model));
  return model;
}

}  // namespace

std::vector<ModelSpec> FamilyOfSizes(std::int64_t seq_len) {
  std::vector<ModelSpec> family;
  family.reserve(kHidden.size());
  for (const std::int64_t hidden : kHidden) family.push_back(FamilyModel(hidden, seq_len));
  return family;
}

std::int64_t DefaultBatchTokens(std::int64_t parameters) {
  constexpr std::int64_t kMillion = 1'000'000, kBillion = 1000 * kMillion;
  if (parameters < kBillion) return kMillion / 2;
  if (parameters < 5 * kBillion) return kMillion;
  return parameters < 50 * kBillion ? 2 * kMillion : 4 * kMillion;
}

std::int64_t GlobalBatchNear(std::int64_t tokens, std::int64_t seq_len, std::int64_t gpus) {
  std::int64_t batch = gpus;
  while (batch % 2 == 0) batch /= 2;
  const double wanted = static_cast<double>(tokens) / static_cast<double>(seq_len);
  // Doubled while that is nearer, by ratio: while batch * 2 / wanted < wanted / batch.
  while (2 * static_cast<double>(batch) * static_cast<double>(batch) < wanted * wanted) batch *= 2;
  return batch;
}

}  // namespace autocfg
