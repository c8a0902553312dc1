// The result of a job, or of a worker's share of one, for the coordinator. Plain values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "autocfg/v1/worker_service.pb.h"

namespace autocfg::worker {

struct JobReport {
  v1::Outcome outcome = v1::OUTCOME_FAILED;
  std::string message;                                     // the failing rank's own error; UTF-8
  v1::FailureKind failure = v1::FAILURE_KIND_UNSPECIFIED;  // with OUTCOME_FAILED
  // last stderr output of the failing ranks, each under a heading with its number; UTF-8, at most
  // kMaxLogBytes
  std::string log;
  std::optional<v1::Measurement> measurement;
  std::optional<v1::StepTimeline> timeline;  // of the step that the measurement's run recorded
  std::optional<v1::CalibrateResult> calibration;
};

inline constexpr std::size_t kMaxLogBytes = 32 << 10;
inline constexpr std::size_t kMaxMessageBytes = 8 << 10;

// A job that would fail on any worker.
inline JobReport FailedReport(std::string message) {
  JobReport report;
  report.message = std::move(message);
  report.failure = v1::FAILURE_KIND_OWN;
  return report;
}

// Nothing ran. Another machine, or this one later, may be able to run the job.
inline JobReport RefusedReport(std::string message) {
  JobReport report;
  report.outcome = v1::OUTCOME_REFUSED;
  report.message = std::move(message);
  return report;
}

}  // namespace autocfg::worker
