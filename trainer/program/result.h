// Converts an exception to the error that a rank reports. Thread-safe.
#pragma once

#include <exception>

#include "autocfg/v1/trainer.pb.h"

namespace autocfg::trainer {

// Returns an error with a code of trainer.proto and a one-line message.
v1::RankError ToRankError(const std::exception_ptr& error);

}  // namespace autocfg::trainer
