// The model of NeMo 1.x's YAML. Sources: megatron_gpt_model.py (get_specs), utils_funcs.py
// (activation_to_func), falcon_decoder_layer.py and gemma2_modules.py.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/settings/tokenizers.h"

namespace autocfg {
namespace {

constexpr std::string_view kFalcon = "megatron_falcon_gpt";
constexpr std::string_view kGemma2 = "megatron_gemma2";

// Whether the file is of the model that has this specification of layers.
bool IsOfSpec(std::string_view spec, SettingReader& read) {
  const bool of_model = read.Text("model.name") == spec, of_file = read.Text("name") == spec;
  return of_model || of_file;
}

// The function of openai_gelu is the tanh form, in place of what `activation` names. The kernel that adds the
// biases takes that form, too.
void ReadNemoActivation(bool biases, SettingReader& read, ModelSpec& model) {
  static constexpr std::array<std::pair<std::string_view, Activation>, 6> kNames = {
      {{"swiglu", Activation::kSwiGlu},
       {"geglu", Activation::kGeGlu},
       {"gelu", Activation::kGeluErf},
       {"approx-gelu", Activation::kGelu},
       {"squared-relu", Activation::kSquaredRelu},
       {"relu", Activation::kRelu}}};
  const std::string said = read.Text(nemo::kActivation, "gelu");
  std::string_view name = said;
  if (name.starts_with("fast-")) name.remove_prefix(std::string_view("fast-").size());
  const bool tanh = read.Flag(nemo::kOpenAiGelu), fused = read.Flag(nemo::kFusedActivation, true) && biases;
  const auto known = std::ranges::find(kNames, name, &std::pair<std::string_view, Activation>::first);
  if (known == kNames.end()) {
    read.Fail(*read.Find(nemo::kActivation),
              fmt::format("is '{}', which is not modelled; gelu, swiglu, geglu and squared-relu can be read",
                          base::Printable(said)));
    return;
  }
  model.activation = known->second;
  if (tanh && !name.ends_with("gelu") && name != "geglu") {
    read.FailAgainst(*read.Find(nemo::kOpenAiGelu), *read.Find(nemo::kActivation), "; leave one of them");
  } else if (model.activation == Activation::kGeluErf && (tanh || fused)) {
    model.activation = Activation::kGelu;
  }
}

// Falcon's layers add attention and feed-forward together.
void ReadNemoResiduals(SettingReader& read, ModelSpec& model) {
  constexpr std::string_view kParallel = "model.mcore_customization_config.parallel_attention";
  constexpr std::string_view kNewer = "model.mcore_customization_config.new_decoder_architecture";
  const bool parallel = read.Flag(kParallel), newer = read.Flag(kNewer);
  if (!parallel && !newer) return;
  if (IsOfSpec(kFalcon, read)) {
    model.parallel_residual = true;
    model.shared_norm = !newer;
  } else {
    read.NoteOf(*read.Find(parallel ? kParallel : kNewer),
                fmt::format("is left out: it is of layers of model.name {}", kFalcon));
  }
}

// Scales and caps, and norms on outputs, as Gemma has them.
void ReadNemoScales(SettingReader& read, ModelSpec& model) {
  if (read.Flag("model.apply_embedding_scaling"))
    model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  if (const double width = read.Real("model.mcore_customization_config.query_pre_attn_scalar", 0); width > 0)
    model.attention_scale = 1 / std::sqrt(width);
  model.attention_softcap = read.Real("model.mcore_customization_config.attn_logit_softcapping", 0);
  model.output_softcap = read.Real("model.mcore_customization_config.final_logit_softcapping", 0);
  if (IsOfSpec(kGemma2, read)) model.norm_placement = NormPlacement::kSandwich;
}

void ReadNemoVocab(const ReadingOptions& options, SettingReader& read, ModelSpec& model) {
  model.vocab = ReadVocabSize(nemo::kPaddedVocab, options, read);
  CheckSaidVocab(nemo::kPaddedVocab, model.vocab, options, read);
  if (options.vocab > 0) model.vocab = options.vocab;
  if (model.vocab > 0) return;
  for (const std::string_view name : {"model.tokenizer.type", "model.tokenizer.model"}) {
    if (const Setting* tokenizer = read.Find(name); tokenizer != nullptr && tokenizer->unknown.empty())
      model.vocab = TokensOfTokenizer(tokenizer->values);
    if (model.vocab > 0) return;
  }
  read.Fail("the file does not say how many tokens its tokenizer has; give --vocab");
  model.vocab = 1;
}

}  // namespace

void ReadNemoModel(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ModelSpec& model = run.model;
  ReadCoreModel(kNemoNames, read, run);
  model.ffn_hidden = read.Whole(kNemoNames.ffn_hidden, 4 * model.hidden);
  model.kv_heads = read.Whole(kNemoNames.kv_heads, model.heads);
  const bool biases = read.Flag(nemo::kBiases, true);
  SetBiases(model, biases);
  if (read.Flag(nemo::kQkvBiases)) model.qkv_bias = true;
  ReadNemoActivation(biases, read, model);
  ReadNemoResiduals(read, model);
  ReadNemoScales(read, model);
  if (const std::int64_t window = ReadCoreWindow("model.window_size", read); window > 0) {
    if (const absl::Status status = ApplyPattern({.sliding_window = window}, model); !status.ok())
      read.Fail(std::string(status.message()));
  }
  model.tied_embeddings = read.Flag(nemo::kTied, true);
  if (read.Has("model.transformer_block_type") && read.Text("model.transformer_block_type") != "pre_ln")
    read.Fail(*read.Find("model.transformer_block_type"), "is not modelled; only pre_ln can be read");
  ReadNemoVocab(options, read, model);
}

}  // namespace autocfg
