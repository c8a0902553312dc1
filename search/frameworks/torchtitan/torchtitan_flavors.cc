// The dense models of torchtitan's releases: torchtitan/models/llama3 and qwen3 (__init__.py).
#include <algorithm>
#include <array>
#include <optional>

#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

struct Qwen3Flavor {
  std::string_view name;
  std::int64_t layers, hidden, heads, ffn_hidden;
  bool tied;
};
constexpr std::array<Qwen3Flavor, 6> kQwen3Flavors = {{{"0.6B", 28, 1024, 16, 3072, true},
                                                       {"1.7B", 28, 2048, 16, 6144, true},
                                                       {"4B", 36, 2560, 32, 9728, true},
                                                       {"8B", 36, 4096, 32, 12288, false},
                                                       {"14B", 40, 5120, 40, 17408, false},
                                                       {"32B", 64, 5120, 64, 25600, false}}};

// What its models share.
ModelSpec PlainModel() {
  ModelSpec model;
  model.norm = Norm::kRmsNorm;
  model.activation = Activation::kSwiGlu;
  model.position = Position::kRope;
  model.tied_embeddings = false;
  model.vocab_multiple = 1;
  SetBiases(model, false);
  return model;
}

ModelSpec Qwen3Model(const Qwen3Flavor& flavor) {
  ModelSpec model = PlainModel();
  model.layers = flavor.layers;
  model.hidden = flavor.hidden;
  model.heads = flavor.heads;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.ffn_hidden = flavor.ffn_hidden;
  model.vocab = 151936;
  model.max_seq_len = 4096;
  model.norm_eps = 1e-6;
  model.rope_theta = 1e6;
  model.qk_norm = QkNorm::kHead;
  model.tied_embeddings = flavor.tied;
  return model;
}

// The model of its tests.
ModelSpec DebugModel() {
  ModelSpec model = PlainModel();
  model.layers = 6;
  model.hidden = 256;
  model.heads = model.kv_heads = 16;
  model.ffn_hidden = 768;
  model.vocab = 2048;
  model.max_seq_len = 2048;
  model.rope_theta = 5e5;
  return model;
}

}  // namespace

std::optional<ModelSpec> TorchtitanModel(std::string_view name, std::string_view flavor) {
  if (name == "qwen3") {
    const auto found = std::ranges::find(kQwen3Flavors, flavor, &Qwen3Flavor::name);
    if (found == kQwen3Flavors.end()) return std::nullopt;
    return Qwen3Model(*found);
  }
  if (name != torchtitan::kLlama3) return std::nullopt;
  // Kinds of attention, of the same size.
  for (const std::string_view kind : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"}) {
    if (!flavor.ends_with(kind)) continue;
    flavor.remove_suffix(kind.size());
    break;
  }
  if (flavor == "debugmodel") return DebugModel();
  for (const auto& [size, preset] : torchtitan::kFlavors) {
    if (flavor != size) continue;
    auto model = ModelPreset(preset);
    if (!model.ok()) return std::nullopt;
    FillDefaults(*model);
    return *std::move(model);
  }
  return std::nullopt;
}

}  // namespace autocfg
