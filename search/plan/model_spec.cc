#include "search/plan/model_spec.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/subject.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg {
namespace {

constexpr std::array<std::string_view, 2> kNorms = {"layernorm", "rmsnorm"};
constexpr std::array<std::string_view, 5> kRopeScalings = {"linear", "dynamic", "yarn", "longrope", "llama3"};
constexpr std::array<std::string_view, 4> kPositions = {"learned", "rope", "alibi", "none"};

template <typename Enum, std::size_t N>
std::optional<Enum> Parse(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// Bounds that keep every count and byte figure of a plan within 64 bits.
constexpr std::int64_t kMaxLayers = 100'000;
constexpr std::int64_t kMaxHidden = 10'000'000;
constexpr std::int64_t kMaxHeads = 100'000;
constexpr std::int64_t kMaxFfnHidden = 100'000'000;
constexpr std::int64_t kMaxVocab = 100'000'000;
constexpr std::int64_t kMaxModelSeqLen = 100'000'000;
constexpr std::int64_t kMaxVocabMultiple = 65'536;
constexpr double kMaxParameters = 1e15;
constexpr std::size_t kMaxModelNameBytes = 200;

absl::Status Invalid(std::string_view field, std::string_view problem) {
  return base::InvalidArgument("model", fmt::format("{} {}", field, problem));
}

// Returns the number of weights in one layer's matrix products.
template <typename T>
T LayerMatmulWeights(const ModelSpec& model) {
  const T hidden = static_cast<T>(model.hidden);
  const T query = static_cast<T>(model.heads) * static_cast<T>(model.head_dim);
  const T key_value = static_cast<T>(model.kv_heads) * static_cast<T>(model.head_dim);
  const T ffn = static_cast<T>(model.ffn_hidden);
  return hidden * (query + 2 * key_value) + query * hidden +
         (IsGated(model.activation) ? 3 : 2) * hidden * ffn;
}

template <typename T>
T Parameters(const ModelSpec& model) {
  const T hidden = static_cast<T>(model.hidden);
  const T norm = (HasBias(model.norm) ? 2 : 1) * hidden;
  T layer = LayerMatmulWeights<T>(model) + 2 * norm;
  if (model.bias) {
    const T qkv =
        (static_cast<T>(model.heads) + 2 * static_cast<T>(model.kv_heads)) * static_cast<T>(model.head_dim);
    layer += qkv + 2 * hidden + (IsGated(model.activation) ? 2 : 1) * static_cast<T>(model.ffn_hidden);
  }
  T total = static_cast<T>(model.layers) * layer + norm + static_cast<T>(model.vocab) * hidden;
  if (!model.tied_embeddings) total += static_cast<T>(model.vocab) * hidden;
  if (model.position == Position::kLearned) total += static_cast<T>(model.max_seq_len) * hidden;
  return total;
}

}  // namespace

std::string_view Name(Norm norm) { return kNorms[static_cast<std::size_t>(norm)]; }
std::string_view Name(Position position) { return kPositions[static_cast<std::size_t>(position)]; }
std::optional<Norm> ParseNorm(std::string_view name) { return Parse<Norm>(kNorms, name); }
std::optional<Position> ParsePosition(std::string_view name) { return Parse<Position>(kPositions, name); }

void FillDefaults(ModelSpec& model, std::int64_t seq_len) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0 && model.heads > 0 && model.hidden % model.heads == 0) {
    model.head_dim = model.hidden / model.heads;
  }
  if (model.ffn_hidden == 0 && model.hidden > 0 && model.hidden <= kMaxHidden)
    model.ffn_hidden = 4 * model.hidden;
  if (model.max_seq_len == 0) model.max_seq_len = seq_len != 0 ? seq_len : 1024;
}

absl::Status Validate(const ModelSpec& model) {
  struct Bound {
    std::string_view field;
    std::int64_t value;
    std::int64_t most;
  };
  if (model.head_dim == 0 && model.hidden > 0 && model.heads > 0 && model.heads <= kMaxHeads &&
      model.hidden % model.heads != 0) {
    return Invalid("heads", fmt::format("= {} does not divide hidden = {}; change one or set head_dim",
                                        model.heads, model.hidden));
  }
  for (const Bound& bound :
       {Bound{"layers", model.layers, kMaxLayers}, Bound{"hidden", model.hidden, kMaxHidden},
        Bound{"heads", model.heads, kMaxHeads}, Bound{"kv_heads", model.kv_heads, kMaxHeads},
        Bound{"head_dim", model.head_dim, kMaxHidden}, Bound{"ffn_hidden", model.ffn_hidden, kMaxFfnHidden},
        Bound{"vocab", model.vocab, kMaxVocab}, Bound{"max_seq_len", model.max_seq_len, kMaxModelSeqLen},
        Bound{"vocab_multiple", model.vocab_multiple, kMaxVocabMultiple}}) {
    if (bound.value < 1 || bound.value > bound.most) {
      return Invalid(bound.field, fmt::format("is {}; it must be from 1 to {}", bound.value, bound.most));
    }
  }
  if (model.heads % model.kv_heads != 0) {
    return Invalid("kv_heads", fmt::format("= {} does not divide heads = {}; give a divisor of heads",
                                           model.kv_heads, model.heads));
  }
  if (model.position == Position::kRope && model.head_dim % 2 != 0) {
    return Invalid("head_dim", fmt::format("is {}; rotary positions need an even one", model.head_dim));
  }
  struct Range {
    std::string_view field;
    double value;
    double least;
    double most;
  };
  for (const Range& range :
       {Range{"norm_eps", model.norm_eps, 0, 1}, Range{"rope_theta", model.rope_theta, 1, 1e12},
        Range{"init_std", model.init_std, 0, 1}}) {
    if (!std::isfinite(range.value) || range.value <= 0) {
      return Invalid(range.field, fmt::format("is {}; it must be a positive number", range.value));
    }
    if (range.value < range.least || range.value > range.most) {
      return Invalid(range.field, fmt::format("is {:g}; it must be from {:g} to {:g}", range.value,
                                              range.least, range.most));
    }
  }
  if (model.name.size() > kMaxModelNameBytes) {
    return Invalid(
        "name", fmt::format("has {} bytes; at most {} are allowed", model.name.size(), kMaxModelNameBytes));
  }
  if (std::any_of(model.name.begin(), model.name.end(),
                  [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; })) {
    return Invalid("name", "has a control character, such as a line break; leave it out");
  }
  if (!model.rope_scaling.empty()) {
    if (!IsRopeScaling(model.rope_scaling)) {
      return Invalid("rope_scaling", fmt::format("is not known; it must be one of {}, or left out",
                                                 fmt::join(kRopeScalings, ", ")));
    }
    if (model.position != Position::kRope) {
      return Invalid("rope_scaling",
                     fmt::format("is {}, but position is {}; leave it out or set position to rope",
                                 model.rope_scaling, Name(model.position)));
    }
  }
  if (const double parameters = Parameters<double>(model); parameters > kMaxParameters) {
    return base::InvalidArgument(
        "model", fmt::format("its sizes make {:.3g} parameters; at most {:.0e} are allowed", parameters,
                             kMaxParameters));
  }
  return absl::OkStatus();
}

bool IsRopeScaling(std::string_view name) {
  return std::find(kRopeScalings.begin(), kRopeScalings.end(), name) != kRopeScalings.end();
}

absl::Status CheckPredictable(const ModelSpec& model) {
  if (model.position == Position::kAlibi) {
    return base::Unimplemented("model", "position alibi is not supported yet; use learned, rope or none");
  }
  return absl::OkStatus();
}

absl::Status CheckEngineSupports(const ModelSpec& model) {
  if (absl::Status status = CheckPredictable(model); !status.ok()) return status;
  if (!model.rope_scaling.empty()) {
    return base::Unimplemented(
        "model",
        fmt::format("rope_scaling {} can be predicted, but running it is not supported yet; remove it "
                    "to train with the "
                    "frequencies of rope_theta alone",
                    model.rope_scaling));
  }
  return absl::OkStatus();
}

std::int64_t PaddedVocab(const ModelSpec& model, std::int64_t tp) {
  const std::int64_t multiple = tp * model.vocab_multiple;
  return (model.vocab + multiple - 1) / multiple * multiple;
}

std::int64_t ParameterCount(const ModelSpec& model) { return Parameters<std::int64_t>(model); }

double ModelFlops(const ModelSpec& model, double tokens, double seq_len) {
  const double layers = static_cast<double>(model.layers);
  const double width = static_cast<double>(model.heads) * static_cast<double>(model.head_dim);
  const double matmuls = 6 * layers * LayerMatmulWeights<double>(model);
  const double attention = 12 * layers * seq_len * width;
  const double output = 6 * static_cast<double>(model.hidden) * static_cast<double>(model.vocab);
  return tokens * (matmuls + attention + output);
}

}  // namespace autocfg
