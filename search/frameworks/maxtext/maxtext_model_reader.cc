// The shape of a model in MaxText's YAML, by the kind of its layers. Sources: gemma.py, gemma2.py, gemma3.py,
// gpt3.py and olmo3.py beside its decoders, which hold what no setting says.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/maxtext/maxtext.h"

namespace autocfg {
namespace {

constexpr std::string_view kBlock = "decoder_block";
constexpr std::string_view kWindowSize = "sliding_window_size";

// What the layers of a block have, beside what the settings say.
struct MaxTextBlock {
  std::string_view name;
  bool scales_embeddings = false;  // by the root of their width
  bool norms_heads = false;
  int layers_in_one = 1;  // of a block that counts several as one
  int every_global = 0;   // of layers with windows, each that many-th has none; 0: no layer has a window
};

constexpr std::array kMaxTextBlocks = {
    MaxTextBlock{.name = "default"},
    MaxTextBlock{.name = "llama2"},
    MaxTextBlock{.name = "mistral"},
    MaxTextBlock{.name = "qwen2"},
    MaxTextBlock{.name = "qwen3"},
    MaxTextBlock{.name = "gpt3"},
    MaxTextBlock{.name = "olmo3"},
    MaxTextBlock{.name = "gemma", .scales_embeddings = true},
    MaxTextBlock{.name = "gemma2", .scales_embeddings = true, .layers_in_one = 2, .every_global = 2},
    MaxTextBlock{.name = "gemma3", .scales_embeddings = true, .norms_heads = true, .every_global = 6},
};

void ReadMaxTextActivation(SettingReader& read, ModelSpec& model) {
  std::string activations;
  if (const Setting* named = read.Known("mlp_activations")) {
    for (const std::string& value : named->values) activations += value + " ";
  }
  const bool gated = activations.empty() || activations.find("linear") != std::string::npos;
  const bool gelu = activations.find("gelu") != std::string::npos;
  model.activation = gated ? (gelu ? Activation::kGeGlu : Activation::kSwiGlu) : Activation::kGelu;
}

// GPT-3's layers have the biases, norms and positions of 2020.
void ReadMaxTextGpt3(SettingReader& read, ModelSpec& model) {
  model.norm = Norm::kLayerNorm;
  model.position = Position::kLearned;
  SetBiases(model, true);
  if (const std::int64_t positions = read.Whole("trainable_position_size", -1, -1); positions > 0)
    model.max_seq_len = positions;
}

// Norms of queries and keys over all of their dims, and norms on outputs.
void SetMaxTextOlmo3(ModelSpec& model) {
  model.norm_placement = NormPlacement::kOutput;
  if (model.qk_norm != QkNorm::kNone) model.qk_norm = QkNorm::kFull;
}

void ReadMaxTextRotary(SettingReader& read, ModelSpec& model) {
  model.position = Position::kRope;
  model.rope_theta = read.Real("rope_max_timescale", 10000);
  const std::string type = read.Text("rope_type", "default");
  const double factor = read.Real("rope_factor", 40), linear = read.Real("rope_linear_scaling_factor", 1);
  const std::int64_t original = read.Whole("original_max_position_embeddings", 4096);
  const double fast = read.Real("beta_fast", 32), slow = read.Real("beta_slow", 1);
  const bool truncates = read.Flag("rope_truncate", true);
  if (type == "yarn") {
    model.rope_scaling = RopeScaling::kYarn;
    model.rope_scaling_parameters = {.factor = factor,
                                     .original_max_position_embeddings = original,
                                     .beta_fast = fast,
                                     .beta_slow = slow,
                                     .truncate = truncates};
  } else if (type == "llama3.1") {
    model.rope_scaling = RopeScaling::kLlama3;
    model.rope_scaling_parameters = Llama3Scaling(8);
  } else if (linear != 1) {
    model.rope_scaling = RopeScaling::kLinear;
    model.rope_scaling_parameters = {.factor = linear};
  }
}

// Windows of all layers but some, which may rotate by another base.
void ReadMaxTextWindows(const MaxTextBlock& block, SettingReader& read, ModelSpec& model) {
  const std::int64_t window = read.Whole(kWindowSize, 0, 0);
  const std::int64_t local = read.Whole("local_rope_max_timescale", 0, -1);
  const std::int64_t every =
      block.name == "olmo3" ? read.Whole("inhomogeneous_layer_cycle_interval", 1) : block.every_global;
  if (window == 0 || every <= 1) return;
  ChangeKinds(model, [&](std::int64_t layer, LayerRun& kind) {
    if ((layer + 1) % every == 0) return;
    kind.window = window;
    if (local > 0) kind.rope_theta = static_cast<double>(local);
  });
}

}  // namespace

void ReadMaxTextShape(const ReadingOptions& options, SettingReader& read, ModelSpec& model) {
  if (read.Whole("global_parameter_scale", 1) != 1)
    read.Fail(*read.Find("global_parameter_scale"), "is not modelled; give the sizes themselves");
  const std::string name = read.Text(kBlock, "llama2");
  const auto block = std::ranges::find(kMaxTextBlocks, name, &MaxTextBlock::name);
  if (block == kMaxTextBlocks.end()) {
    read.Fail(*read.Find(kBlock),
              fmt::format("is '{}', whose layers cannot be read; give --model", base::Printable(name)));
    return;
  }
  model.layers = Times(block->layers_in_one, read.Whole("base_num_decoder_layers", 16));
  model.hidden = read.Whole("base_emb_dim", 2048);
  model.heads = read.Whole("base_num_query_heads", 16);
  model.kv_heads = read.Whole("base_num_kv_heads", 16);
  model.head_dim = read.Whole("head_dim", 128);
  model.ffn_hidden = read.Whole("base_mlp_dim", 7168);
  ReadMaxTextActivation(read, model);
  model.norm = Norm::kRmsNorm;
  model.norm_eps = read.Real("normalization_layer_epsilon", 1e-5);
  model.tied_embeddings = read.Flag("logits_via_embedding");
  model.qk_norm = read.Flag("use_qk_norm", block->norms_heads) ? QkNorm::kHead : QkNorm::kNone;
  SetBiases(model, false);
  model.qkv_bias = read.Flag("attention_bias");
  ReadMaxTextRotary(read, model);
  const bool behind_attention = read.Flag("use_post_attn_norm"), behind_ffn = read.Flag("use_post_ffw_norm");
  if (behind_attention && behind_ffn) model.norm_placement = NormPlacement::kSandwich;
  if (block->scales_embeddings) model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  model.attention_softcap = read.Real("attn_logits_soft_cap", 0);
  model.output_softcap = read.Real("final_logits_soft_cap", 0);
  if (name == "gpt3") ReadMaxTextGpt3(read, model);
  if (name == "olmo3") SetMaxTextOlmo3(model);
  if (read.ok()) ReadMaxTextWindows(*block, read, model);
  model.vocab = read.Whole("vocab_size", 32000);
  CheckSaidVocab("vocab_size", read.Has("vocab_size") ? model.vocab : 0, options, read);
  model.vocab_multiple = 1;
}

}  // namespace autocfg
