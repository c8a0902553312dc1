// What Megatron-LM's flags recompute, by the names of its releases. Source: as of megatron_reader.cc; before
// 2.3 --checkpoint-activations, up to 2.6 --activations-checkpoint-method (megatron/arguments.py).
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

constexpr std::string_view kCheckpoint = "--checkpoint-activations";
constexpr std::string_view kCheckpointLayers = "--checkpoint-num-layers";
constexpr std::string_view kOldMethod = "--activations-checkpoint-method";
constexpr std::string_view kOldLayers = "--activations-checkpoint-num-layers";

// Returns the part that a module recomputes; nothing if it has nothing to act on here, with a note, or if it
// cannot be read.
std::optional<LayerPart> ReadModule(const Setting& modules, const std::string& name, SettingReader& read) {
  for (const megatron::RecomputeModule& module : megatron::kModules) {
    if (name != module.name) continue;
    if (module.part == LayerPart::kMlp)
      read.NoteOf(modules, fmt::format("names mlp, which computes {}", megatron::kBeyondMlp));
    return module.part;
  }
  if (name == "layernorm") {
    if (HasLocalLayers(read)) return LayerPart::kNorm;
    read.NoteOf(
        modules,
        "names layernorm, which has nothing to act on: in dense layers of Transformer Engine, the norms "
        "belong to the projections behind them");
  } else if (name == "moe" || name == "moe_act" || name == "shared_experts") {
    read.NoteOf(modules, fmt::format("names {}, which has nothing to act on without experts", name));
  } else if (name == "mla_up_proj") {
    read.Fail(modules, "names mla_up_proj, which needs multi-latent attention, which is not modelled");
  } else {
    read.Fail(modules, fmt::format("names the unknown module '{}'; expected core_attn, layernorm, "
                                   "mla_up_proj, mlp, moe, moe_act or shared_experts",
                                   base::Printable(name)));
  }
  return std::nullopt;
}

// Reads the parts that a selective recomputation is of.
LayerParts ReadModules(bool selective, SettingReader& read) {
  const Setting* modules =
      selective ? read.Known(megatron::kRecomputeModules) : read.Find(megatron::kRecomputeModules);
  if (modules == nullptr) return LayerOptions().recompute_parts;
  LayerParts parts;
  if (!selective) {
    read.NoteOf(*modules,
                fmt::format("has no effect without {} {}", kMegatronNames.recompute, kSelectiveRecompute));
    return parts;
  }
  for (const std::string& name : modules->values) {
    if (const std::optional<LayerPart> part = ReadModule(*modules, name, read)) parts.Add(*part);
  }
  if (modules->values.empty()) read.NoteOf(*modules, "names no module: read as recompute=none");
  return parts;
}

// --recompute-activations is another name of --recompute-granularity selective.
void ReadRecompute(const CoreNames& names, SettingReader& read, RunDraft& run) {
  constexpr std::string_view kSelectively = "--recompute-activations";
  const Setting* selective = read.Flag(kSelectively) ? read.Find(kSelectively) : nullptr;
  const std::string granularity = read.Text(names.recompute, selective != nullptr ? kSelectiveRecompute : "");
  const bool other = granularity != kSelectiveRecompute;
  const LayerParts parts = ReadModules(!other, read);
  if (selective != nullptr) {
    const Setting* method = read.Known(names.recompute_method);
    if (other || method != nullptr) {
      const Setting& against = other ? *read.Find(names.recompute) : *method;
      read.FailAgainst(against, *selective, "; leave one of them out");
      return;
    }
  }
  ReadCoreRecompute(names, parts, read, run);
  if (selective != nullptr && !read.Has(names.recompute)) SetSelective(*selective, parts, read, run);
}

// Recomputes all layers as the old names say; without one, does nothing.
void ReadOldRecompute(const CoreNames& names, SettingReader& read, RunDraft& run) {
  const Setting* checkpoint = read.Flag(kCheckpoint) ? read.Find(kCheckpoint) : nullptr;
  const Setting* method = read.Known(kOldMethod);
  const std::int64_t layers = checkpoint == nullptr ? 1 : read.Whole(kCheckpointLayers, 1);
  if (checkpoint == nullptr && method == nullptr) return;
  const Setting& old = checkpoint != nullptr ? *checkpoint : *method;
  const Setting* other = checkpoint != nullptr && method != nullptr ? method : read.Find(names.recompute);
  // A fork takes both (Megatron-DeepSpeed).
  if (other != nullptr && !(other != method && read.Text(names.recompute) == kFullRecompute)) {
    read.FailAgainst(*other, old, "; leave one of them");
    return;
  }
  if (other != nullptr) return;
  if (method != nullptr) {
    CoreNames of_old = names;
    of_old.recompute_method = kOldMethod;
    of_old.recompute_layers = kOldLayers;
    ReadCoreRecompute(of_old, {}, read, run, kFullRecompute);
    read.NoteOf(old, fmt::format("is an old name: read as recompute={}", RecomputeText(run.plan)));
    return;
  }
  SetUniformRecompute(layers, run);
  read.NoteOf(old, fmt::format("is an old name: read as recompute={}", RecomputeText(run.plan)));
}

}  // namespace

void ReadMegatronRecompute(const CoreNames& names, SettingReader& read, RunDraft& run) {
  ReadRecompute(names, read, run);
  if (read.ok()) ReadOldRecompute(names, read, run);
  for (const std::string_view split : {"--distribute-checkpointed-activations",
                                       "--distribute-saved-activations", "--partition-activations"}) {
    if (run.plan.tp > 1) {
      read.RefuseIfOn(split, "inputs that are split over tensor ranks are not modelled");
    } else {
      (void)read.Find(split);  // there are no ranks to split them over
    }
  }
}

}  // namespace autocfg
