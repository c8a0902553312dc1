// Whether an exception passes through what this is a member of. Then peers may never do their part, and to
// wait for them would hide the error. One thread.
#pragma once

#include <exception>

namespace autocfg {

class Unwinding {
 public:
  // Not of those that were passing already when this was made: it was made to clean up after them.
  bool Now() const { return std::uncaught_exceptions() > before_; }

 private:
  const int before_ = std::uncaught_exceptions();
};

}  // namespace autocfg
