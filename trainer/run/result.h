// How an exception becomes the error that a rank reports. Thread-safe.
#pragma once

#include <exception>

#include "autocfg/v1/trainer.pb.h"

namespace autocfg {

// The code as trainer.proto lists them; the message is one line.
v1::RankError ToRankError(const std::exception_ptr& error);

}  // namespace autocfg
