// The default optimizer of a training run. Thread-safe.
#pragma once

#include "autocfg/v1/trainer.pb.h"

namespace autocfg {

// Returns AdamW at a constant rate: the default of `autocfg train`, and the optimizer of every trial of a
// search.
v1::OptimizerSpec DefaultOptimizer();

}  // namespace autocfg
