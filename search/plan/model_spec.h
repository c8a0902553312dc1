// A decoder-only transformer, as the trainer builds it and as the cost model counts it. Plain values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/fields.h"
#include "search/ops/activation.h"
#include "search/plan/layer_kinds.h"
#include "search/plan/rotary/rope_scaling.h"

namespace autocfg {

enum class Norm : std::uint8_t { kLayerNorm, kRmsNorm };
inline constexpr int kNormCount = static_cast<int>(Norm::kRmsNorm) + 1;
enum class Position : std::uint8_t { kLearned, kRope, kAlibi, kNone };
inline constexpr int kPositionCount = static_cast<int>(Position::kNone) + 1;
// RMS norms of the queries and keys, before they rotate. kHead: of each head, by a weight of head_dim that
// the heads share (Qwen3, Gemma 3). kFull: over all queries of a token, and over all keys (OLMo 2).
enum class QkNorm : std::uint8_t { kNone, kHead, kFull };
inline constexpr int kQkNormCount = static_cast<int>(QkNorm::kFull) + 1;
// Where a layer's norms are. kPre: on the inputs of attention and of feed-forward. kOutput: on their outputs
// instead, before the residual is added (OLMo 2). kSandwich: on both (Gemma 2).
enum class NormPlacement : std::uint8_t { kPre, kOutput, kSandwich };
inline constexpr int kNormPlacementCount = static_cast<int>(NormPlacement::kSandwich) + 1;

// Whether norms are on the inputs of attention and feed-forward, and whether on their outputs.
constexpr bool NormsInputs(NormPlacement placement) { return placement != NormPlacement::kOutput; }
constexpr bool NormsOutputs(NormPlacement placement) { return placement != NormPlacement::kPre; }

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

// Names as in JSON: "layernorm", "learned", ...
std::string_view Name(Norm norm);
std::string_view Name(Position position);
std::string_view Name(QkNorm norm);
std::string_view Name(NormPlacement placement);

inline constexpr double kMaxLayers = 1e5;

// What each field means, with its bounds, is in its row (model_fields.cc).
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
  RopeScaling rope_scaling = RopeScaling::kNone;
  RopeScalingParameters rope_scaling_parameters = {};
  double init_std = 0.02;
  std::int64_t vocab_multiple = 128;
  bool qkv_bias = true;
  bool attention_out_bias = true;
  bool mlp_bias = true;
  bool tied_embeddings = true;

  QkNorm qk_norm = QkNorm::kNone;
  NormPlacement norm_placement = NormPlacement::kPre;
  bool parallel_residual = false;
  bool shared_norm = false;
  bool embedding_norm = false;
  double partial_rotary_factor = 1;
  double embedding_scale = 1;
  double attention_scale = 0;
  double residual_scale = 1;
  double logit_scale = 1;
  double attention_softcap = 0;
  double output_softcap = 0;
  double dropout = 0;
  std::optional<double> attention_dropout = {};
  std::string undescribed = {};
  std::vector<LayerRun> layer_kinds = {};  // normalized (layer_kinds.h)

  bool operator==(const ModelSpec&) const = default;
};

// The share of attention's weights that are dropped.
inline double AttentionDropout(const ModelSpec& model) {
  return model.attention_dropout.value_or(model.dropout);
}

// How much of a field works, at a value other than its default.
enum class Support : std::uint8_t {
  kNone,       // neither predicted nor run
  kPredicted,  // its time and memory are predicted, the engine does not run it
  kRun,        // both
};

struct ModelField : base::Field<ModelSpec> {
  Support support = Support::kNone;
};

// All fields but layer_kinds, in the order in which JSON has them. JSON, messages, bounds, what is refused as
// not supported, and the documentation follow from the rows.
std::span<const ModelField> ModelFields();

// The last of them, which few models have. A writer of a format without one refuses a model that has it.
std::span<const ModelField> ModelFeatures();

// Fills in fields that are zero as GPT-2 does: kv_heads = heads, head_dim = hidden / heads, ffn_hidden = 4
// hidden, max_seq_len = seq_len if that is not zero, else 1024.
void FillDefaults(ModelSpec& model, std::int64_t seq_len = 0);

// InvalidArgument, naming the field, for:
//
// - a size that is not positive, or so large that a count below could overflow;
// - heads that do not divide hidden if head_dim is derived, or kv_heads that do not divide heads;
// - a name, or a text of what is undescribed, with a control character or of more than 200 bytes;
// - a number outside the bounds of its row;
// - a part that contradicts another: shared_norm without parallel_residual, parallel_residual with norms on
//   outputs, what belongs to rotary positions without them;
// - layer_kinds that ValidateKinds refuses;
// - a partial_rotary_factor that does not rotate a positive even number of dims;
// - parameters of a rope_scaling that it lacks or needs (rope_scaling.h).
absl::Status Validate(const ModelSpec& model);

// Sets the biases of all linear layers.
void SetBiases(ModelSpec& model, bool present);

// Returns how many dims of each head rotate, with rotary positions.
std::int64_t RotaryDims(const ModelSpec& model);

// Returns whether the model names a scaling of rotary frequencies without its parameters. That suffices for
// predictions: a scaling changes neither time nor memory.
bool NamesRopeScalingAlone(const ModelSpec& model);

// Unimplemented, naming the first field that cannot be predicted yet.
absl::Status CheckPredictable(const ModelSpec& model);

// Unimplemented, naming the first field that the training engine lacks.
absl::Status CheckEngineSupports(const ModelSpec& model);

// Returns the rows of the embedding table over `tp` ranks: vocab rounded up to a multiple of tp *
// vocab_multiple.
std::int64_t PaddedVocab(const ModelSpec& model, std::int64_t tp);

// Returns the number of trainable parameters. Tied tensors count once; vocabulary padding does not count.
std::int64_t ParameterCount(const ModelSpec& model);

// Returns how many keys a query counts for in ModelFlops, summed over the layers. As if attention were not
// causal: seq_len in a layer that attends to the whole sequence, those of a chunk in one with chunks. In one
// with a window it is as much less as its AttendedPairs (op_desc.h) are fewer.
double CountedKeys(const ModelSpec& model, double seq_len);

// Returns the FLOPs of one training step over `tokens` tokens in sequences of `seq_len`. Counts forward and
// backward, full (not causal) attention and the output layer, without recomputation: 72 B s l h^2 (1 + s/6h +
// V/12hl) of Korthikanti et al. 2022 (eq. 7), generalised to any ffn_hidden, head layout and CountedKeys.
double ModelFlops(const ModelSpec& model, double tokens, double seq_len);

}  // namespace autocfg
