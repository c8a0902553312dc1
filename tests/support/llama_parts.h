// What every Llama has in common, for tests that need one of another size.
#pragma once

#include "search/plan/model_spec.h"

namespace autocfg {

// Gives a model RMSNorm, SwiGLU, rotary positions, an output layer of its own, and no biases. Leaves its
// sizes.
inline void SetLlamaParts(ModelSpec& model) {
  model.norm = Norm::kRmsNorm;
  model.activation = Activation::kSwiGlu;
  model.position = Position::kRope;
  SetBiases(model, false);
  model.tied_embeddings = false;
}

}  // namespace autocfg
