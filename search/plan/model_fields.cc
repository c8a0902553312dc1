// The table of fields of a model.
#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/plan/model_spec.h"

namespace autocfg {
namespace {

constexpr std::array<std::string_view, kNormCount> kNorms = {"layernorm", "rmsnorm"};
constexpr std::array<std::string_view, kPositionCount> kPositions = {"learned", "rope", "alibi", "none"};
constexpr std::array<std::string_view, kQkNormCount> kQkNorms = {"none", "head", "full"};
constexpr std::array<std::string_view, kNormPlacementCount> kNormPlacements = {"pre", "output", "sandwich"};

// Bounds that keep every count and byte figure of a plan within 64 bits.
constexpr double kMaxHidden = 1e7;
constexpr double kMaxHeads = 1e5;
constexpr double kMaxFfnHidden = 1e8;
constexpr double kMaxVocab = 1e8;
constexpr double kMaxModelSeqLen = 1e8;
constexpr double kMaxVocabMultiple = 65'536;
constexpr double kMaxScale = 1e6;
constexpr double kMaxDropout = 0.99;

bool HasEqualBiases(const ModelSpec& model) {
  return model.qkv_bias == model.attention_out_bias && model.qkv_bias == model.mlp_bias;
}

// The rows of fields by their types; `support`: what is predicted and run of a value other than the default.
template <auto kMember>
constexpr ModelField ModelRow(Support support, base::FieldTraits traits) {
  return {base::FieldOf<kMember>(traits), support};
}
template <auto kMember>
constexpr ModelField SizeRow(Support support, std::string_view name, double least, double most,
                             std::string_view summary, std::string_view default_note = "") {
  return ModelRow<kMember>(
      support,
      {.name = name, .least = least, .most = most, .summary = summary, .default_note = default_note});
}
template <auto kMember>
constexpr ModelField NumberRow(Support support, std::string_view name, double most, std::string_view summary,
                               std::string_view default_note = "") {
  return SizeRow<kMember>(support, name, 0, most, summary, default_note);
}
template <auto kMember>
constexpr ModelField NamedRow(Support support, std::string_view name, std::span<const std::string_view> names,
                              std::string_view summary) {
  return ModelRow<kMember>(support, {.name = name, .names = names, .summary = summary});
}
template <auto kMember>
constexpr ModelField PlainRow(Support support, std::string_view name, std::string_view summary,
                              std::string_view default_note = "") {
  return ModelRow<kMember>(support, {.name = name, .summary = summary, .default_note = default_note});
}

// Return the row with one property changed.
constexpr ModelField Required(ModelField field) {
  field.required = true;
  return field;
}
constexpr ModelField Always(ModelField field) {
  field.always_written = true;
  return field;
}

// `bias`: the biases of all linear layers, where they are equal.
constexpr ModelField AllBiases(ModelField field) {
  field.get = [](const base::FieldTraits&, const ModelSpec& from) -> std::optional<base::FieldValue> {
    if (HasEqualBiases(from)) return from.qkv_bias;
    return std::nullopt;
  };
  field.set = [](const base::FieldTraits&, ModelSpec& to, const base::FieldValue& value) {
    SetBiases(to, std::get<bool>(value));
  };
  return field;
}

// The biases of some of them, where they differ.
template <auto kMember>
constexpr ModelField SomeBiases(std::string_view name, std::string_view summary) {
  ModelField field = PlainRow<kMember>(Support::kRun, name, summary, "`bias`");
  field.get = [](const base::FieldTraits&, const ModelSpec& from) -> std::optional<base::FieldValue> {
    if (HasEqualBiases(from)) return std::nullopt;
    return from.*kMember;
  };
  return field;
}

using Model = ModelSpec;
constexpr Support kRun = Support::kRun;

constexpr std::string_view kFirstFeature = "qk_norm";
constexpr ModelField kModelFields[] = {
    Always(PlainRow<&Model::name>(kRun, "name", "a label for people", "none")),
    Required(SizeRow<&Model::layers>(kRun, "layers", 1, kMaxLayers, "transformer layers")),
    Required(SizeRow<&Model::hidden>(kRun, "hidden", 1, kMaxHidden, "width of the residual stream")),
    Required(SizeRow<&Model::heads>(kRun, "heads", 1, kMaxHeads, "query heads of a layer")),
    SizeRow<&Model::kv_heads>(kRun, "kv_heads", 1, kMaxHeads, "key and value heads, a divisor of `heads`",
                              "`heads`"),
    SizeRow<&Model::head_dim>(kRun, "head_dim", 1, kMaxHidden, "width of a head", "`hidden` / `heads`"),
    SizeRow<&Model::ffn_hidden>(kRun, "ffn_hidden", 1, kMaxFfnHidden, "width of the feed-forward block",
                                "4 · `hidden`"),
    Required(SizeRow<&Model::vocab>(kRun, "vocab", 1, kMaxVocab, "tokens of the vocabulary")),
    SizeRow<&Model::max_seq_len>(kRun, "max_seq_len", 1, kMaxModelSeqLen, "tokens of the longest sequence",
                                 "the sequence length asked for, else 1024"),
    Always(NamedRow<&Model::activation>(kRun, "activation", kActivationNames,
                                        "of the feed-forward block; gelu is the tanh form, gelu_erf the "
                                        "exact one, squared_relu the square of relu")),
    Always(NamedRow<&Model::norm>(kRun, "norm", kNorms, "kind of the norms")),
    Always(NumberRow<&Model::norm_eps>(kRun, "norm_eps", 1, "what norms add to the variance")),
    Always(NamedRow<&Model::position>(kRun, "position", kPositions, "how tokens get their positions")),
    Always(SizeRow<&Model::rope_theta>(kRun, "rope_theta", 1, 1e12, "base of the rotary frequencies")),
    NamedRow<&Model::rope_scaling>(kRun, "rope_scaling", kRopeScalingNames,
                                   "scaling of the rotary frequencies: an object with its parameters, or its "
                                   "name alone, which is only predicted"),
    Always(AllBiases(PlainRow<&Model::qkv_bias>(kRun, "bias", "biases of all linear layers"))),
    SomeBiases<&Model::qkv_bias>("qkv_bias", "biases of the projection to q, k and v"),
    SomeBiases<&Model::attention_out_bias>("attention_out_bias", "biases of attention's output projection"),
    SomeBiases<&Model::mlp_bias>("mlp_bias", "biases of the feed-forward block"),
    Always(PlainRow<&Model::tied_embeddings>(kRun, "tied_embeddings",
                                             "the output layer has the weights of the embeddings")),
    Always(NumberRow<&Model::init_std>(kRun, "init_std", 1, "standard deviation of the initial weights")),
    Always(SizeRow<&Model::vocab_multiple>(kRun, "vocab_multiple", 1, kMaxVocabMultiple,
                                           "the vocabulary is padded to a multiple of tp · this")),
    NamedRow<&Model::qk_norm>(
        kRun, "qk_norm", kQkNorms,
        "RMS norms of queries and keys before they rotate. head: of each head, with weights of "
        "head_dim that the heads share; full: over all queries of a token, and over all its keys"),
    NamedRow<&Model::norm_placement>(
        kRun, "norm_placement", kNormPlacements,
        "norms on the inputs of attention and feed-forward (pre), on their outputs "
        "instead, before the residual is added (output), or on both (sandwich)"),
    PlainRow<&Model::parallel_residual>(
        kRun, "parallel_residual", "attention and feed-forward read the same input and are added together"),
    PlainRow<&Model::shared_norm>(kRun, "shared_norm", "with `parallel_residual`: both read it by one norm"),
    PlainRow<&Model::embedding_norm>(kRun, "embedding_norm",
                                     "a norm of the embeddings, before the first layer"),
    NumberRow<&Model::partial_rotary_factor>(kRun, "partial_rotary_factor", 1,
                                             "share of the dims of a head, from the first on, that rotate"),
    NumberRow<&Model::embedding_scale>(kRun, "embedding_scale", kMaxScale,
                                       "multiplies the token embeddings, not a tied output layer"),
    NumberRow<&Model::attention_scale>(kRun, "attention_scale", kMaxScale, "multiplies the attention scores",
                                       "1 / √`head_dim`"),
    NumberRow<&Model::residual_scale>(kRun, "residual_scale", kMaxScale,
                                      "multiplies the outputs of attention and feed-forward"),
    NumberRow<&Model::logit_scale>(kRun, "logit_scale", kMaxScale, "multiplies the logits"),
    NumberRow<&Model::attention_softcap>(kRun, "attention_softcap", kMaxScale,
                                         "c: scores x become c · tanh(x / c)", "0: none"),
    NumberRow<&Model::output_softcap>(kRun, "output_softcap", kMaxScale, "the same for the logits",
                                      "0: none"),
    NumberRow<&Model::dropout>(
        Support::kPredicted, "dropout", kMaxDropout,
        "share that is dropped of the embeddings and of the outputs of attention and feed-forward; its masks "
        "take memory",
        "0: none"),
    NumberRow<&Model::attention_dropout>(Support::kPredicted, "attention_dropout", kMaxDropout,
                                         "share that is dropped of the weights of attention", "`dropout`"),
    PlainRow<&Model::undescribed>(
        Support::kPredicted, "undescribed",
        "parts of the model that no other field describes, for people; they change neither memory nor time "
        "noticeably, and predictions leave them out",
        "none"),
};

// Returns the error about the first field with less support that the model has.
absl::Status CheckSupport(const ModelSpec& model, bool (*supported)(Support), std::string_view problem) {
  for (const ModelField& field : kModelFields) {
    if (supported(field.support) || field.IsDefault(model)) continue;
    const std::string value =
        std::visit([](const auto& is) { return fmt::format("{}", is); }, *field.Get(model));
    return base::Unimplemented("model", fmt::format("{} {} {}; leave it out", field.name, value, problem));
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const ModelField> ModelFields() { return kModelFields; }

std::span<const ModelField> ModelFeatures() {
  return {std::ranges::find(kModelFields, kFirstFeature, &ModelField::name), std::end(kModelFields)};
}

std::string_view Name(Norm norm) { return kNorms[static_cast<std::size_t>(norm)]; }
std::string_view Name(Position position) { return kPositions[static_cast<std::size_t>(position)]; }
std::string_view Name(QkNorm norm) { return kQkNorms[static_cast<std::size_t>(norm)]; }
std::string_view Name(NormPlacement placement) {
  return kNormPlacements[static_cast<std::size_t>(placement)];
}

absl::Status CheckPredictable(const ModelSpec& model) {
  for (std::size_t i = 0; i < model.layer_kinds.size(); ++i) {
    if (!model.layer_kinds[i].experts) continue;
    return base::Unimplemented(
        "model", fmt::format("layer_kinds[{}]: experts true is not supported yet; leave it out", i));
  }
  return CheckSupport(
      model, [](Support support) { return support != Support::kNone; }, "is not supported yet");
}

absl::Status CheckEngineSupports(const ModelSpec& model) {
  AUTOCFG_RETURN_IF_ERROR(CheckPredictable(model));
  if (NamesRopeScalingAlone(model)) {
    return base::Unimplemented(
        "model",
        fmt::format("rope_scaling {} is a name alone, which can be predicted, not run; give an object "
                    "with its parameters, as config.json does, or remove it",
                    Name(model.rope_scaling)));
  }
  return CheckSupport(
      model, [](Support support) { return support == Support::kRun; },
      "can be predicted, but running it is not supported yet");
}

}  // namespace autocfg
