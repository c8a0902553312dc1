// What the ops of a layer depend on that differs between the layers of a model. Plain values, thread-safe.
#pragma once

#include <compare>
#include <cstdint>

#include "search/plan/layer_kinds.h"
#include "search/plan/model_spec.h"
#include "search/plan/run_view.h"

namespace autocfg {

struct LayerKind {
  bool rotates = true;      // it has rotary positions, if the model has them
  std::int64_t window = 0;  // it attends to this sliding window; 0: to the whole sequence
  std::int64_t chunk = 0;   // it attends within chunks of so many tokens; 0: within the sequence

  auto operator<=>(const LayerKind&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// Returns what the ops of a kind depend on. Kinds that are equal in sequences of `seq_len` tokens are equal.
inline LayerKind LayerKindOf(const LayerRun& kind, std::int64_t seq_len) {
  return {.rotates = kind.rotary,
          .window = kind.window < seq_len ? kind.window : 0,
          .chunk = kind.chunk < seq_len ? kind.chunk : 0};
}

// Returns the kind of a layer, counted from 0.
inline LayerKind LayerKindOf(const RunView& run, std::int64_t layer) {
  return LayerKindOf(KindOf(run.model, layer), run.workload.seq_len);
}

}  // namespace autocfg
