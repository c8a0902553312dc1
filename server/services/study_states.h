// The states that a user moves a study between. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/resource_names.h"
#include "server/store/store.h"

namespace autocfg {

// Edits of a study; FailedPrecondition where its state does not allow the move. One that has been made
// already changes nothing.
absl::Status ToRunning(v1::Study& study, double now_s);    // from CREATED, PAUSED
absl::Status ToPaused(v1::Study& study, double now_s);     // from RUNNING, CREATED
absl::Status ToResumed(v1::Study& study, double now_s);    // from PAUSED
absl::Status ToCancelled(v1::Study& study, double now_s);  // from all but DONE and FAILED

absl::StatusOr<v1::Study> ChangeState(Store& store, const std::string& name, const std::string& request_id,
                                      double now_s, absl::Status (*move)(v1::Study&, double));

// One line in the log. What others wrote of the message is made fit for it.
void LogState(std::int64_t study, v1::StudyState state, std::string message);

// `request` has a study's name and a request_id.
template <typename Request>
absl::StatusOr<v1::Study> ChangeState(Store& store, const Request& request, double now_s,
                                      absl::Status (*move)(v1::Study&, double)) {
  return ChangeState(store, request.name(), request.request_id(), now_s, move);
}

}  // namespace autocfg
