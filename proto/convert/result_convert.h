// Conversion between what is known of a plan and its messages: Prediction and MemoryBytes in both
// directions; measurements, counts and ends of trials in the terms of the planner. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "autocfg/v1/model.pb.h"
#include "autocfg/v1/study_service.pb.h"
#include "search/cost/cost_model.h"
#include "search/planner/search_loop.h"

namespace autocfg {

v1::MemoryBytes ToProto(const MemoryBytes& memory, std::int64_t capacity_bytes);
MemoryBytes FromProto(const v1::MemoryBytes& message);
v1::Prediction ToProto(const Prediction& prediction);
Prediction FromProto(const v1::Prediction& message);

v1::Counts ToProto(const SearchCounts& counts);

// Does not check the values; SearchLoop::Observe does.
Sample FromProto(const v1::Measurement& message);

// Returns nullopt for a trial that has not ended, and for a cancelled one, which the search does not observe.
std::optional<TrialOutcome> FromProto(v1::TrialState state);

}  // namespace autocfg
