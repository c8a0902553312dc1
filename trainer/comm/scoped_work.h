// A Work whose destructor waits, as communicator.h requires, except during stack unwinding.
#pragma once

#include "trainer/comm/communicator.h"
#include "trainer/comm/unwinding.h"

namespace autocfg::trainer {

class ScopedWork : public Work {
 protected:
  // To be called in the destructor of the class that implements Wait(). Ignores exceptions of type `Ended`:
  // the operation has then ended, which is all that the destructor guarantees.
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

}  // namespace autocfg::trainer
