// Conversion between Prediction, MemoryBytes, Breakdown and their messages. Thread-safe.
#pragma once

#include <cstdint>

#include "autocfg/v1/model.pb.h"
#include "search/cost/cost_model.h"

namespace autocfg {

v1::MemoryBytes ToProto(const MemoryBytes& memory, std::int64_t capacity_bytes);
MemoryBytes FromProto(const v1::MemoryBytes& message);
v1::Prediction ToProto(const Prediction& prediction);
Prediction FromProto(const v1::Prediction& message);

}  // namespace autocfg
