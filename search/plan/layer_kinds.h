// The kinds of a model's layers. ModelSpec::layer_kinds has runs of consecutive layers of one kind, in the
// order of the layers:
//
//   model.layer_kinds = {{.layers = 5, .window = 1024, .rope_theta = 10'000}, {.layers = 1}};
//
// A model whose layers are all of the default kind has no runs. Plain values; pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/fields.h"

namespace autocfg {

struct ModelSpec;

// What each field means, with its bounds, is in its row (layer_kinds.cc).
struct LayerRun {
  std::int64_t layers = 0;
  std::int64_t window = 0;  // 0: none
  std::int64_t chunk = 0;   // 0: none
  bool rotary = true;
  double rope_theta = 0;  // 0: the model's, with its rope_scaling
  bool experts = false;

  bool operator==(const LayerRun&) const = default;
};

// All fields, in the order in which JSON has them.
std::span<const base::Field<LayerRun>> LayerRunFields();

// A model may have at most so many runs, and so many different kinds.
inline constexpr std::size_t kMostLayerRuns = 10'000;
inline constexpr std::size_t kMostLayerKinds = 64;

// Returns the runs; in a model without, one of all layers.
std::vector<LayerRun> RunsOf(const ModelSpec& model);

// Returns the kind of a layer, counted from 0, as a run of one layer. Takes time with the number of runs.
LayerRun KindOf(const ModelSpec& model, std::int64_t layer);

// Calls `change` with each layer, counted from 0, and its kind, which it may change.
void ChangeKinds(ModelSpec& model, const std::function<void(std::int64_t, LayerRun&)>& change);

// Makes runs of equal models equal: joins neighbours of one kind, and drops what says the default. A
// rope_theta that is the model's own is the default, unless the model scales its frequencies. Requires runs
// that ValidateKinds accepts.
void NormalizeKinds(ModelSpec& model);

// InvalidArgument, naming the field, for runs that do not add up to the model's layers, too many of them, a
// number outside the bounds of its row, and parts that contradict each other or the model.
absl::Status ValidateKinds(const ModelSpec& model);

// Fields that say kinds by a pattern, as older files and messages have them.
struct LayerPattern {
  std::int64_t sliding_window = 0;
  std::int64_t sliding_window_pattern = 0;
  std::int64_t no_rope_layer_interval = 0;
};

std::span<const base::Field<LayerPattern>> LayerPatternFields();

// Sets the kinds that the pattern says; none if it says nothing. InvalidArgument for a pattern beside
// layer_kinds, or one that contradicts itself or the model.
absl::Status ApplyPattern(const LayerPattern& pattern, ModelSpec& model);

// Returns the pattern that says the model's kinds, for formats that have nothing else; nothing if none does.
std::optional<LayerPattern> PatternOf(const ModelSpec& model);

}  // namespace autocfg
