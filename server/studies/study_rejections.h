// The plans that a stored study's search rejected, found again from its specification and its calibration.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "autocfg/v1/study_service.pb.h"
#include "search/planner/planning.h"
#include "server/store/store.h"

namespace autocfg::server {

// The most rejected plans that one call lists.
inline constexpr std::int64_t kMostRejected = 1'000'000;

// Calls `send` with messages as ListRejected streams them (study_service.proto), until it returns false.
// `most`: 0 or a number up to kMostRejected. Plans as the study does now: with its calibration if it has one,
// else as before it. InvalidArgument: `most` is negative or too large. FailedPrecondition: the study was not
// started. Cancelled once `send` or `watch` says no. Other errors: those of the store and the specification.
absl::Status ListRejected(Store& store, std::int64_t study, std::int64_t most, const PlanningWatch& watch,
                          const std::function<bool(const v1::RejectedPlans&)>& send);

}  // namespace autocfg::server
