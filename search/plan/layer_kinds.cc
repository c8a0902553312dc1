#include "search/plan/layer_kinds.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"
#include "search/plan/model_spec.h"

namespace autocfg {
namespace {

using base::FieldOf;

constexpr double kMaxKindTokens = 1e8;

constexpr base::Field<LayerRun> kLayerRunFields[] = {
    FieldOf<&LayerRun::layers>(
        {.name = "layers", .least = 1, .most = kMaxLayers, .required = true, .summary = "layers of the run"}),
    FieldOf<&LayerRun::window>({.name = "window",
                                .least = 1,
                                .most = kMaxKindTokens,
                                .summary = "tokens that a token attends to, itself included",
                                .default_note = "all before it"}),
    FieldOf<&LayerRun::chunk>({.name = "chunk",
                               .least = 1,
                               .most = kMaxKindTokens,
                               .summary = "a token attends to those before it in its chunk of so many tokens",
                               .default_note = "one chunk"}),
    FieldOf<&LayerRun::rotary>(
        {.name = "rotary", .summary = "the layers have rotary positions, if the model has"}),
    FieldOf<&LayerRun::rope_theta>(
        {.name = "rope_theta",
         .least = 1,
         .most = 1e12,
         .unknown_at_zero = true,
         .summary = "base of the rotary frequencies of these layers, which `rope_scaling` does not change",
         .default_note = "that of the model, with its `rope_scaling`"}),
    FieldOf<&LayerRun::experts>(
        {.name = "experts", .summary = "a mixture of experts, which is not supported yet"}),
};

constexpr base::Field<LayerPattern> kLayerPatternFields[] = {
    FieldOf<&LayerPattern::sliding_window>({.name = "sliding_window",
                                            .most = kMaxKindTokens,
                                            .summary = "the `window` of layers",
                                            .default_note = "0: none"}),
    FieldOf<&LayerPattern::sliding_window_pattern>(
        {.name = "sliding_window_pattern",
         .most = kMaxLayers,
         .summary = "n: every n-th layer attends to the whole sequence, the others to the window",
         .default_note = "0: all to the window"}),
    FieldOf<&LayerPattern::no_rope_layer_interval>({.name = "no_rope_layer_interval",
                                                    .most = kMaxLayers,
                                                    .summary = "n: every n-th layer has no rotary positions",
                                                    .default_note = "0: all have"}),
};

absl::Status InvalidKinds(std::string_view field, std::string_view problem) {
  return base::InvalidArgument("model", fmt::format("{} {}", field, problem));
}

absl::Status InvalidRun(std::size_t run, std::string_view field, std::string_view problem) {
  return InvalidKinds(fmt::format("layer_kinds[{}]: {}", run, field), problem);
}

LayerRun WithLayers(LayerRun run, std::int64_t layers) {
  run.layers = layers;
  return run;
}

bool AreOneKind(const LayerRun& a, const LayerRun& b) { return WithLayers(a, b.layers) == b; }

// Requires a position that is not rope.
std::string WithoutRope(std::string_view value, const ModelSpec& model) {
  return fmt::format("is {}, but position is {}; leave it out or set position to rope", value,
                     Name(model.position));
}

absl::Status CheckRun(const ModelSpec& model, std::size_t i) {
  const LayerRun& run = model.layer_kinds[i];
  for (const base::Field<LayerRun>& field : kLayerRunFields) {
    if (!field.required && field.IsDefault(run)) continue;
    const base::FieldValue value = *field.Get(run);
    if (const auto* size = std::get_if<std::int64_t>(&value);
        size != nullptr &&
        (static_cast<double>(*size) < field.least || static_cast<double>(*size) > field.most)) {
      return InvalidRun(
          i, field.name,
          fmt::format("is {}; it must be from {:.0f} to {:.0f}", *size, field.least, field.most));
    }
    if (const auto* number = std::get_if<double>(&value);
        number != nullptr && !(*number >= field.least && *number <= field.most)) {
      return InvalidRun(
          i, field.name,
          fmt::format("is {:g}; it must be from {:g} to {:g}", *number, field.least, field.most));
    }
  }
  if (run.window != 0 && run.chunk != 0) {
    return InvalidRun(i, "chunk",
                      fmt::format("is {}, and window is {}; give one of them", run.chunk, run.window));
  }
  if (run.rope_theta != 0 && !run.rotary) {
    return InvalidRun(i, "rope_theta",
                      fmt::format("is {:g}, but rotary is false; leave one of them out", run.rope_theta));
  }
  if (model.position == Position::kRope) return absl::OkStatus();
  if (!run.rotary) return InvalidRun(i, "rotary", WithoutRope("false", model));
  if (run.rope_theta != 0)
    return InvalidRun(i, "rope_theta", WithoutRope(fmt::format("{:g}", run.rope_theta), model));
  return absl::OkStatus();
}

// Whether a layer, counted from 0, is the last of `interval` layers.
bool IsLastOf(std::int64_t interval, std::int64_t layer) {
  return interval != 0 && (layer + 1) % interval == 0;
}

absl::Status CheckPattern(const LayerPattern& pattern, const ModelSpec& model) {
  std::string_view given;
  for (const base::Field<LayerPattern>& field : kLayerPatternFields) {
    if (field.IsDefault(pattern)) continue;
    const std::int64_t value = std::get<std::int64_t>(*field.Get(pattern));
    if (value < 0 || static_cast<double>(value) > field.most)
      return InvalidKinds(field.name, fmt::format("is {}; it must be from 0 to {:.0f}", value, field.most));
    if (given.empty()) given = field.name;
  }
  if (!given.empty() && !model.layer_kinds.empty())
    return InvalidKinds(given, "and layer_kinds are both given; leave one of them out");
  if (pattern.no_rope_layer_interval != 0 && model.position != Position::kRope) {
    return InvalidKinds("no_rope_layer_interval",
                        WithoutRope(fmt::format("{}", pattern.no_rope_layer_interval), model));
  }
  if (pattern.no_rope_layer_interval == 1) {
    return InvalidKinds("no_rope_layer_interval",
                        "is 1, which leaves no layer with positions; set position to none");
  }
  if (pattern.sliding_window_pattern != 0 && pattern.sliding_window == 0) {
    return InvalidKinds("sliding_window_pattern",
                        fmt::format("is {}, but there is no sliding_window; leave it out or give the window",
                                    pattern.sliding_window_pattern));
  }
  if (pattern.sliding_window_pattern == 1) {
    return InvalidKinds("sliding_window_pattern",
                        "is 1, which leaves no layer with the window; leave sliding_window out instead");
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const base::Field<LayerRun>> LayerRunFields() { return kLayerRunFields; }
std::span<const base::Field<LayerPattern>> LayerPatternFields() { return kLayerPatternFields; }

std::vector<LayerRun> RunsOf(const ModelSpec& model) {
  if (!model.layer_kinds.empty()) return model.layer_kinds;
  return {{.layers = model.layers}};
}

LayerRun KindOf(const ModelSpec& model, std::int64_t layer) {
  for (const LayerRun& run : model.layer_kinds) {
    if (layer < run.layers) return WithLayers(run, 1);
    layer -= run.layers;
  }
  return {.layers = 1};
}

void ChangeKinds(ModelSpec& model, const std::function<void(std::int64_t, LayerRun&)>& change) {
  if (model.layers < 1 || static_cast<double>(model.layers) > kMaxLayers) return;  // Validate refuses it
  std::vector<LayerRun> each;
  each.reserve(static_cast<std::size_t>(model.layers));
  for (const LayerRun& run : RunsOf(model))
    each.insert(each.end(), static_cast<std::size_t>(run.layers), WithLayers(run, 1));
  for (std::size_t i = 0; i < each.size(); ++i) change(static_cast<std::int64_t>(i), each[i]);
  model.layer_kinds = std::move(each);
  NormalizeKinds(model);
}

void NormalizeKinds(ModelSpec& model) {
  std::vector<LayerRun> joined;
  for (LayerRun run : model.layer_kinds) {
    if (run.rope_theta == model.rope_theta && model.rope_scaling == RopeScaling::kNone) run.rope_theta = 0;
    if (!joined.empty() && AreOneKind(joined.back(), run)) {
      joined.back().layers += run.layers;
    } else {
      joined.push_back(run);
    }
  }
  if (joined.size() == 1 && joined[0] == LayerRun{.layers = model.layers}) joined.clear();
  model.layer_kinds = std::move(joined);
}

absl::Status ValidateKinds(const ModelSpec& model) {
  const std::vector<LayerRun>& runs = model.layer_kinds;
  if (runs.empty()) return absl::OkStatus();
  if (runs.size() > kMostLayerRuns) {
    return InvalidKinds("layer_kinds",
                        fmt::format("has {} runs; at most {} are allowed", runs.size(), kMostLayerRuns));
  }
  std::int64_t layers = 0;
  std::vector<LayerRun> kinds;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    AUTOCFG_RETURN_IF_ERROR(CheckRun(model, i));
    layers += runs[i].layers;
    if (std::ranges::none_of(kinds, [&](const LayerRun& kind) { return AreOneKind(kind, runs[i]); }))
      kinds.push_back(runs[i]);
    if (kinds.size() > kMostLayerKinds)
      return InvalidKinds("layer_kinds",
                          fmt::format("has more than {} different kinds; give fewer", kMostLayerKinds));
  }
  if (layers != model.layers) {
    return InvalidKinds(
        "layer_kinds",
        fmt::format("has runs of {} layers in all, but layers is {}; make them equal", layers, model.layers));
  }
  if (std::ranges::none_of(runs, &LayerRun::rotary))
    return InvalidKinds("layer_kinds", "has no layer with rotary positions; set position to none");
  return absl::OkStatus();
}

absl::Status ApplyPattern(const LayerPattern& pattern, ModelSpec& model) {
  AUTOCFG_RETURN_IF_ERROR(CheckPattern(pattern, model));
  if (pattern.sliding_window == 0 && pattern.no_rope_layer_interval == 0) return absl::OkStatus();
  ChangeKinds(model, [&](std::int64_t layer, LayerRun& kind) {
    if (!IsLastOf(pattern.sliding_window_pattern, layer)) kind.window = pattern.sliding_window;
    kind.rotary = !IsLastOf(pattern.no_rope_layer_interval, layer);
  });
  return absl::OkStatus();
}

std::optional<LayerPattern> PatternOf(const ModelSpec& model) {
  LayerPattern pattern;
  std::int64_t layers = 0, full = 0;
  for (const LayerRun& run : model.layer_kinds) {
    if (run.window != 0) pattern.sliding_window = run.window;
    if (run.window == 0 && full == 0) full = layers + 1;
    if (!run.rotary && pattern.no_rope_layer_interval == 0) pattern.no_rope_layer_interval = layers + 1;
    layers += run.layers;
  }
  if (pattern.sliding_window != 0) pattern.sliding_window_pattern = full;
  ModelSpec said = model;
  said.layer_kinds.clear();
  if (!ApplyPattern(pattern, said).ok() || said.layer_kinds != model.layer_kinds) return std::nullopt;
  return pattern;
}

}  // namespace autocfg
