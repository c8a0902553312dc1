// A decoder-only transformer, as the trainer builds it and as the cost model counts it. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "search/ops/activation.h"

namespace autocfg {

enum class Norm : std::uint8_t { kLayerNorm, kRmsNorm };
inline constexpr int kNormCount = static_cast<int>(Norm::kRmsNorm) + 1;
enum class Position : std::uint8_t { kLearned, kRope, kAlibi, kNone };
inline constexpr int kPositionCount = static_cast<int>(Position::kNone) + 1;

// Whether the norm has a bias beside its weight.
constexpr bool HasBias(Norm norm) {
  switch (norm) {
    case Norm::kLayerNorm: return true;
    case Norm::kRmsNorm: return false;
  }
  return false;
}

// Whether the norm subtracts each row's mean, and keeps it for the backward beside 1 / deviation.
constexpr bool HasMean(Norm norm) {
  switch (norm) {
    case Norm::kLayerNorm: return true;
    case Norm::kRmsNorm: return false;
  }
  return false;
}

// Names as in JSON ("layernorm", "learned", ...), and their parsers. A parser returns empty for an unknown
// name.
std::string_view Name(Norm norm);
std::string_view Name(Position position);
std::optional<Norm> ParseNorm(std::string_view name);
std::optional<Position> ParsePosition(std::string_view name);

struct ModelSpec {
  std::string name = {};
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t max_seq_len = 0;
  Activation activation = Activation::kGelu;
  Norm norm = Norm::kLayerNorm;
  double norm_eps = 1e-5;
  Position position = Position::kLearned;
  double rope_theta = 10000.0;
  // frequency scaling, by its name in Hugging Face's files; empty: none
  std::string rope_scaling = {};
  double init_std = 0.02;
  std::int64_t vocab_multiple = 128;  // the vocabulary is padded to a multiple of tp times this
  bool bias = true;
  bool tied_embeddings = true;

  bool operator==(const ModelSpec&) const = default;
};

// Fills in fields that are zero as GPT-2 does: kv_heads = heads, head_dim = hidden / heads, ffn_hidden = 4
// hidden, max_seq_len = seq_len if that is not zero, else 1024.
void FillDefaults(ModelSpec& model, std::int64_t seq_len = 0);

// InvalidArgument, naming the field, for:
//
// - a size that is not positive, or so large that a count below could overflow;
// - heads that do not divide hidden if head_dim is derived, or kv_heads that do not divide heads;
// - a name with a control character or of more than 200 bytes;
// - a number outside the sensible range (norm_eps and init_std at most 1, rope_theta from 1 to 1e12).
absl::Status Validate(const ModelSpec& model);

// Returns true if predictions support this scaling of rotary frequencies. It changes neither time nor memory.
bool IsRopeScaling(std::string_view name);

// Unimplemented, naming the first feature that cannot be predicted yet.
absl::Status CheckPredictable(const ModelSpec& model);

// Unimplemented, naming the first feature that the training engine lacks; rope_scaling can still be
// predicted.
absl::Status CheckEngineSupports(const ModelSpec& model);

// Returns the rows of the embedding table over `tp` ranks: vocab rounded up to a multiple of tp *
// vocab_multiple.
std::int64_t PaddedVocab(const ModelSpec& model, std::int64_t tp);

// Returns the number of trainable parameters. Tied tensors count once; vocabulary padding does not count.
std::int64_t ParameterCount(const ModelSpec& model);

// Returns the FLOPs of one training step over `tokens` tokens in sequences of `seq_len`. Counts forward and
// backward, full (not causal) attention and the output layer, without recomputation: 72 B s l h^2 (1 + s/6h +
// V/12hl) of Korthikanti et al. 2022 (eq. 7), generalised to any ffn_hidden and head layout.
double ModelFlops(const ModelSpec& model, double tokens, double seq_len);

}  // namespace autocfg
