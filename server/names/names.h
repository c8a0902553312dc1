// Names of resources (`studies/{id}`, `studies/{id}/trials/{n}`, `workers/{id}`), and of states for messages
// and logs. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"

namespace autocfg::server {

struct TrialId {
  std::int64_t study = 0;
  std::int64_t number = 0;
};

std::string StudyName(std::int64_t id);
std::string TrialName(std::int64_t study, std::int64_t number);
std::string CalibrationName(std::int64_t study);  // name of a study's calibration job

// InvalidArgument states the expected form. Numbers are decimal, positive, without leading zeros.
absl::StatusOr<std::int64_t> ParseStudyName(const std::string& name);
absl::StatusOr<TrialId> ParseTrialName(const std::string& name);

// Returns InvalidArgument unless the name is `workers/{id}` with an ID of 1 to 100 letters, digits, '-', '_'
// or '.'.
absl::Status CheckWorkerName(const std::string& name);

// Returns the API's name without its prefix, for example "DONE"; for a value unknown to this build, the
// number.
std::string StateName(v1::StudyState state);
std::string StateName(v1::TrialState state);

}  // namespace autocfg::server
