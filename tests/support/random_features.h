// Random mixes of the features that few models have, for tests that compare predictor and engine.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "search/plan/model_spec.h"
#include "tests/support/layer_cycle.h"

namespace autocfg::test {

// Returns the kinds of a model with two kinds of layers in turn.
inline std::vector<LayerRun>& Cycle(ModelSpec& model) {
  if (model.layer_kinds.empty()) model.layer_kinds.assign(2, {.layers = 1});
  return model.layer_kinds;
}

// Gives a model random features, of those that the engine runs, or of all that are predicted. Each call draws
// the same number of random values. The features do not contradict each other, or the model's own. Kinds of
// layers are those of the first two; SetLayers repeats them.
inline void AddRandomFeatures(ModelSpec& model, std::mt19937_64& random, bool predicted_only) {
  using Draw = std::uint64_t;
  using Change = void (*)(ModelSpec&, Draw);
  constexpr Change kChanges[] = {
      [](ModelSpec& m, Draw draw) {
        if (draw % 2 == 0) return;
        m.qkv_bias = draw / 2 % 2 == 0;
        m.attention_out_bias = draw / 4 % 2 == 0;
        m.mlp_bias = draw / 8 % 2 == 0;
      },
      [](ModelSpec& m, Draw draw) { m.qk_norm = static_cast<QkNorm>(draw / 2 % 2 * (draw % kQkNormCount)); },
      [](ModelSpec& m, Draw draw) {
        m.norm_placement = static_cast<NormPlacement>(draw / 3 % 2 * (draw % kNormPlacementCount));
      },
      [](ModelSpec& m, Draw draw) {
        m.parallel_residual = draw % 3 == 0 && m.norm_placement == NormPlacement::kPre;
      },
      [](ModelSpec& m, Draw draw) { m.shared_norm = draw % 2 == 0 && m.parallel_residual; },
      [](ModelSpec& m, Draw draw) { m.embedding_norm = draw % 3 == 0; },
      [](ModelSpec& m, Draw draw) {
        if (m.position != Position::kRope || m.head_dim < 4 || draw % 2 == 0) return;
        m.partial_rotary_factor = 2.0 * static_cast<double>(m.head_dim / 4) / static_cast<double>(m.head_dim);
      },
      [](ModelSpec& m, Draw draw) {
        if (m.position == Position::kRope && draw % 3 == 0) Cycle(m)[1].rotary = false;
      },
      [](ModelSpec& m, Draw draw) { m.embedding_scale = draw % 3 == 0 ? 1.5 : 1; },
      [](ModelSpec& m, Draw draw) { m.attention_scale = draw % 3 == 0 ? 0.4 : 0; },
      [](ModelSpec& m, Draw draw) { m.residual_scale = draw % 3 == 0 ? 0.7 : 1; },
      [](ModelSpec& m, Draw draw) { m.logit_scale = draw % 3 == 0 ? 0.6 : 1; },
      [](ModelSpec& m, Draw draw) {
        if (m.position != Position::kRope || draw % 2 == 0) return;
        m.rope_scaling = draw % 3 == 0 ? RopeScaling::kLlama3 : RopeScaling::kYarn;
        m.rope_scaling_parameters = {.factor = 4, .original_max_position_embeddings = 16};
        if (m.rope_scaling == RopeScaling::kLlama3) m.rope_scaling_parameters = Llama3Scaling(8);
      },
      [](ModelSpec& m, Draw draw) { m.output_softcap = draw % 3 == 0 ? 20 : 0; },
      [](ModelSpec& m, Draw draw) { m.attention_softcap = draw % 3 == 0 ? 2 : 0; },
      [](ModelSpec& m, Draw draw) {
        if (draw % 3 != 0) return;
        Cycle(m)[0].window = 1 + static_cast<std::int64_t>(draw / 3 % 8);
        Cycle(m)[1].window = m.layer_kinds[0].window;
      },
      [](ModelSpec& m, Draw draw) {
        if (draw % 2 == 0) Cycle(m)[1].window = 0;
      },
      [](ModelSpec& m, Draw draw) {
        if (draw % 3 != 0 || Cycle(m)[1].window != 0) return;
        m.layer_kinds[1].chunk = 1 + static_cast<std::int64_t>(draw / 3 % 8);
      },
      [](ModelSpec& m, Draw draw) {
        if (m.position == Position::kRope && draw % 3 == 0) Cycle(m)[0].rope_theta = 50;
      },
  };
  for (const Change change : kChanges) {
    ModelSpec changed = model;
    change(changed, random() >> 8U);
    if ((predicted_only ? CheckPredictable(changed) : CheckEngineSupports(changed)).ok()) model = changed;
  }
  if (model.layers > 0) SetLayers(model, model.layers);
}

// Gives some models fewer key-value heads than `tp` ranks, which then share them. Draws one random value.
// Requires heads and key-value heads that tp divides.
inline void ShareKvHeads(ModelSpec& model, std::int64_t tp, std::mt19937_64& random) {
  const std::uint64_t draw = random() >> 8U;
  if (model.qk_norm == QkNorm::kFull || draw % 3 != 0) return;
  model.kv_heads = draw / 3 % 2 == 0 && tp % 2 == 0 ? tp / 2 : 1;
}

}  // namespace autocfg::test
