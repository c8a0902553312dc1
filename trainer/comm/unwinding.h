// Detects stack unwinding in the owner of this object. During unwinding the peers may never do their part,
// and waiting for them would hide the error. One thread.
#pragma once

#include <exception>

namespace autocfg::trainer {

class Unwinding {
 public:
  // Ignores exceptions that were already active at construction: the object was then created during their
  // cleanup.
  bool Now() const { return std::uncaught_exceptions() > before_; }

 private:
  const int before_ = std::uncaught_exceptions();
};

}  // namespace autocfg::trainer
