// The stream of a communicator over host memory whose tensors are written by the host itself. It has nothing
// to synchronize.
#pragma once

#include "kernels/device.h"

namespace autocfg::trainer {

class HostStream final : public Stream {
 public:
  void Synchronize() override {}
};

}  // namespace autocfg::trainer
