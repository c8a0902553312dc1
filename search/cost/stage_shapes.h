// The sizes that layer_ops and memory_model share: the letters of docs/engine.md under a plan, and the
// parameter tensors of a stage. Pure, thread-safe. Requires a legal, resolved plan.
#pragma once

#include <array>
#include <cstdint>

#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// The letters of docs/engine.md.
struct StepShapes {
  std::int64_t batch = 0;      // B, micro batch
  std::int64_t seq = 0;        // S
  std::int64_t tokens = 0;     // T = B * S
  std::int64_t hidden = 0;     // H
  std::int64_t heads = 0;      // N, local
  std::int64_t head_dim = 0;   // D
  std::int64_t attention = 0;  // A = N * D
  std::int64_t ffn = 0;        // F, local
  std::int64_t vocab = 0;      // V, padded and local
};
StepShapes ShapesOf(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan);

// One parameter tensor: its elements on a rank, and whether every rank of the tensor group holds the same.
struct ParameterShape {
  std::int64_t elements = 0;
  bool replicated = false;
};

// A layer's parameters in the order of docs/engine.md.
std::array<ParameterShape, 12> LayerParameters(const StepShapes& shapes);

// Bytes a tensor takes in a region.
constexpr std::int64_t PaddedBytes(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Bytes of the region that holds one tensor of `type` for each parameter of a stage.
std::int64_t ParameterRegionBytes(const StepShapes& shapes, const ModelSpec& model, bool first, bool last,
                                  std::int64_t layers, DType type);

}  // namespace autocfg
