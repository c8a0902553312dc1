// A clock in Unix seconds. Injected, so that tests can supply their own. Several threads call a Clock.
#pragma once

#include <functional>

namespace autocfg::base {

using Clock = std::function<double()>;

Clock SystemClock();

}  // namespace autocfg::base
