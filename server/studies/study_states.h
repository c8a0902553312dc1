// Changes of a study that users request: of its state, and of its fields. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/names/names.h"
#include "server/store/store.h"

namespace autocfg::server {

// InvalidArgument if the request_id is longer than 200 bytes.
absl::Status CheckRequestId(const std::string& request_id);

// An edit of a study. FailedPrecondition if its state does not allow the move. No effect if the study already
// has the target state.
struct StudyMove {
  const char* request_kind;  // stored with a request's ID; unique among moves
  absl::Status (*edit)(v1::Study& study, double now_s);
};
extern const StudyMove kStartStudy;   // from CREATED, PAUSED
extern const StudyMove kPauseStudy;   // from RUNNING, CREATED
extern const StudyMove kResumeStudy;  // from PAUSED
extern const StudyMove kCancelStudy;  // from all but DONE and FAILED

// `trace_parent`: the trace of the call; kept with a study that it starts. Empty: none.
absl::StatusOr<v1::Study> ChangeState(Store& store, const std::string& name, const std::string& request_id,
                                      double now_s, const StudyMove& move,
                                      const std::string& trace_parent = "");

// Changes the fields that the mask names; if it is empty, those that are set in the request's study.
// InvalidArgument: a path, or a value, that is not allowed. FailedPrecondition: the study has ended.
absl::StatusOr<v1::Study> UpdateStudy(Store& store, const v1::UpdateStudyRequest& request);

// FailedPrecondition, with the stored reason, if the study failed before its plans were known.
absl::Status CheckHasPlans(const v1::Study& study);

// Logs one line. Cleans `message` for the log, because others may have written it.
void LogState(std::int64_t study, v1::StudyState state, const std::string& message);

// `request` has a study name and a request_id.
template <typename Request>
absl::StatusOr<v1::Study> ChangeState(Store& store, const Request& request, double now_s,
                                      const StudyMove& move, const std::string& trace_parent = "") {
  return ChangeState(store, request.name(), request.request_id(), now_s, move, trace_parent);
}

}  // namespace autocfg::server
