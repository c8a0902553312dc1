// A weight with its gradient, and the weight and bias of a linear layer. Plain views.
#pragma once

#include "kernels/tensor.h"

namespace autocfg::trainer {

// Absent (tensors of rank 0) if the model has no such parameter.
struct Weight {
  Tensor value, grad;

  bool present() const { return value.rank > 0; }
};

struct LinearParameters {
  Weight weight;  // [in, out], the rank's part
  Weight bias;    // [out], the rank's part; absent in a model without biases
};

}  // namespace autocfg::trainer
