// What time it is, as Unix seconds: given in, so that tests have their own. A Clock is called from several
// threads.
#pragma once

#include <functional>

namespace autocfg {

using Clock = std::function<double()>;

Clock SystemClock();

}  // namespace autocfg
