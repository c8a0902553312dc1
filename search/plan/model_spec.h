// A decoder-only transformer, as the trainer builds it and the cost model counts it. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "search/ops/activation.h"

namespace autocfg {

enum class Norm : std::uint8_t { kLayerNorm, kRmsNorm };
enum class Position : std::uint8_t { kLearned, kRope, kAlibi, kNone };

// As in JSON: "layernorm", "learned", ... and back; empty for an unknown name.
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
  // how the frequencies are scaled, by its name in Hugging Face's files; empty: not at all
  std::string rope_scaling = {};
  double init_std = 0.02;
  std::int64_t vocab_multiple = 128;  // the vocabulary is padded to a multiple of tp times this
  bool bias = true;
  bool tied_embeddings = true;

  bool operator==(const ModelSpec&) const = default;
};

// Fills the fields left at zero as GPT-2 does: kv_heads = heads, head_dim = hidden / heads, ffn_hidden = 4
// hidden, max_seq_len = seq_len if that is not zero, else 1024.
void FillDefaults(ModelSpec& model, std::int64_t seq_len = 0);

// InvalidArgument, naming the field, when a size is not positive or absurdly large (so that no count below
// overflows), heads do not divide hidden where head_dim was derived, or kv_heads do not divide heads; when
// the name has a control character or is longer than 200 bytes; when a number is beyond what numerics could
// want (norm_eps and init_std at most 1, rope_theta from 1 to 1e12).
absl::Status Validate(const ModelSpec& model);

// The scalings of rotary frequencies by name that can be predicted: they change neither time nor memory.
bool IsRopeScaling(std::string_view name);

// Unimplemented, naming the first feature that nothing predicts yet.
absl::Status CheckPredictable(const ModelSpec& model);

// Unimplemented, naming the first feature that the training engine does not have yet; rope_scaling is
// predicted all the same.
absl::Status CheckEngineSupports(const ModelSpec& model);

// Rows of the embedding table over `tp` ranks: vocab rounded up to a multiple of tp * vocab_multiple.
std::int64_t PaddedVocab(const ModelSpec& model, std::int64_t tp);

// Trainable parameters, tied tensors once, without vocabulary padding.
std::int64_t ParameterCount(const ModelSpec& model);

// FLOPs of one training step over `tokens` tokens in sequences of `seq_len`: forward and backward, full (not
// causal) attention, output layer, no recomputation: 72 B s l h^2 (1 + s/6h + V/12hl) of Korthikanti et al.
// 2022 (eq. 7), generalised to any ffn_hidden and head layout.
double ModelFlops(const ModelSpec& model, double tokens, double seq_len);

}  // namespace autocfg
