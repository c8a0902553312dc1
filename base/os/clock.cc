#include "base/os/clock.h"

#include <chrono>

namespace autocfg::base {

Clock SystemClock() {
  return [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
}

}  // namespace autocfg::base
