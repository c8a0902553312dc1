// Conversion between what is known of a plan and its messages: Prediction and MemoryBytes in both
// directions; measurements, counts and ends of trials in the terms of the planner. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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

// Returns whether the plan's step time is "measured" or "predicted". The time of a slice is no step time of
// the plan, whose step time then stays predicted.
std::string_view Provenance(const v1::Candidate& candidate);

// Returns whether the plans are tied: both were measured as a whole, and the candidate's 95% interval begins
// before the end of that of the best plan.
bool IsTied(const v1::Candidate& candidate, const v1::Candidate& best);

// Returns the number of plans that are tied with the best one, whether or not they are among the runners-up.
int TiedWithBest(const v1::Recommendation& answer);

// Returns nullopt for a trial that has not ended, and for a cancelled one, which the search does not observe.
std::optional<TrialOutcome> FromProto(v1::TrialState state);

}  // namespace autocfg
