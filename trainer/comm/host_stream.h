// The stream of a communicator over host memory whose tensors the host itself has filled: there is nothing to
// wait for.
#pragma once

#include "kernels/device.h"

namespace autocfg {

class HostStream final : public Stream {
 public:
  void Synchronize() override {}
};

}  // namespace autocfg
