// Work that is waited for where it is destroyed, as communicator.h promises, unless an exception passes.
#pragma once

#include "trainer/comm/communicator.h"
#include "trainer/comm/unwinding.h"

namespace autocfg {

class ScopedWork : public Work {
 protected:
  // For the destructor of the class that has Wait(). What it throws of `Ended` is not told: the operation has
  // ended then, which is all that destroying promises.
  template <typename Ended = CommError>
  void WaitUnlessUnwinding() {
    if (unwinding_.Now()) return;
    try {
      Wait();
    } catch (const Ended&) {
    }
  }

 private:
  const Unwinding unwinding_{};
};

}  // namespace autocfg
