// The optimizer of a training run of which nothing else was asked. Thread-safe.
#pragma once

#include "autocfg/v1/trainer.pb.h"

namespace autocfg {

// AdamW at a constant rate: what `autocfg train` runs where no option says otherwise, and every trial of a
// search.
v1::OptimizerSpec DefaultOptimizer();

}  // namespace autocfg
