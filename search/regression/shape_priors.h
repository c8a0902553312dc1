// What is known of the blocks of a model before any of them is measured. Plain values.
#pragma once

#include "search/plan/cluster/calibration.h"

namespace autocfg {

// How far shapes may be from the model before they are measured.
struct ShapePriors {
  BlockCorrections layers{.prior_sigma = 0.1, .own = 0.2, .octaves = 3, .shapes = {}};
  BlockCorrections output_layers{.prior_sigma = 0.4, .own = 0.2, .octaves = 3, .shapes = {}};
};

}  // namespace autocfg
