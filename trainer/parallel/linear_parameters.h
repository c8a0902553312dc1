// A weight with its gradient, and a linear layer's two. Plain views.
#pragma once

#include "kernels/tensor.h"

namespace autocfg {

struct Weight {
  Tensor value, grad;
};

struct LinearParameters {
  Weight weight;  // [in, out], the rank's part
  Weight bias;    // [out], the rank's part
};

}  // namespace autocfg
