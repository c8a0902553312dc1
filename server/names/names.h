// Names of resources (`studies/{id}`, `studies/{id}/trials/{n}`, `studies/{id}/calibration`, `workers/{id}`).
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace autocfg::server {

struct TrialId {
  std::int64_t study = 0;
  std::int64_t number = 0;
};

std::string StudyName(std::int64_t id);
std::string TrialName(std::int64_t study, std::int64_t number);
std::string CalibrationName(std::int64_t study);
// Returns the name of a job: of a trial, or of the study's calibration if `trial` is 0.
std::string JobName(std::int64_t study, std::int64_t trial);

// InvalidArgument states the expected form. Numbers are decimal, positive, without leading zeros.
absl::StatusOr<std::int64_t> ParseStudyName(const std::string& name);
absl::StatusOr<TrialId> ParseTrialName(const std::string& name);
absl::StatusOr<TrialId> ParseJobName(const std::string& name);  // number 0: the calibration

// Returns InvalidArgument unless the name is `workers/{id}` with an ID of 1 to 100 letters, digits, '-', '_'
// or '.'.
absl::Status CheckWorkerName(const std::string& name);

}  // namespace autocfg::server
