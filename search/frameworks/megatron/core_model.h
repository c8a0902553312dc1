// What Megatron-LM and NeMo 1.x share: both train with Megatron's core. Pure functions.
#pragma once

#include "search/frameworks/exported_run.h"
#include "search/frameworks/refusals.h"

namespace autocfg {

// The core has biases in all linear layers, in that of q, k and v alone, or in none.
enum class CoreBiases { kAll, kQkvOnly, kNone, kOther };
CoreBiases CoreBiasesOf(const ModelSpec& model);

// Refuses what the core cannot express of the model. Each framework adds its own.
void CheckCoreModel(const ModelSpec& model, Refusals& refuse);

}  // namespace autocfg
