// Rules of an attempt: whether a report fits its job, how a share of the attempt ended, and how the ends of
// all its shares decide the attempt. docs/architecture.md, "How a run ended", has the table. Pure,
// thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg::server {

// Checks a report with a result (MEASURED). Returns InvalidArgument, in one line, if the job's result is
// missing or does not fit:
//
// - training job: a slice instead of all ranks or the reverse, or not one time per timed step; a timeline
//   that it does not ask for, or one with rows outside of the plan's pipeline
// - calibration: its ops are not exactly those asked for, each once
absl::Status CheckFits(const autocfg::v1::Job& asked, const autocfg::v1::ReportTrialRequest& report);
// Checks a part of a calibration's result: InvalidArgument if the job does not ask for an op, or it is there
// twice.
absl::Status CheckAskedFor(const autocfg::v1::Job& asked, const autocfg::v1::CalibrateResult& timed);

// The numbers are stored. kPrecedence has the order in which ends decide.
enum class ShareEnd : int {
  kRuns = 0,
  kOutOfMemory = 1,
  kFailed = 2,  // its own failure: it would fail again
  kTimedOut = 3,
  kFailedByProcess = 4,
  kRefused = 5,
  kLost = 6,
  kWithdrawn = 7,  // the lease never reached its worker, or the worker was stopped in an orderly way
  kCancelled = 8,  // given back without a request
  kFailedByPeer = 9,
  kStopped = 10,  // given back after the attempt was told to stop
  kMeasured = 11,
};

// Returns the end for a report; kRuns if the outcome is missing or unknown. FAILED without a kind counts as
// the share's own failure. `stopping`: the attempt had already been told to stop.
ShareEnd EndOf(v1::Outcome outcome, v1::FailureKind failure, bool stopping);

// Returns the state of an attempt with this end; RUNNING for kRuns.
v1::TrialState StateOf(ShareEnd end);

// Returns the state of a job whose last attempt had this end: StateOf(end), but LOST if its worker gave it
// back, because nobody cancelled it.
v1::TrialState LastStateOf(ShareEnd end);

// Returns true if a share with this end stops the other shares of its attempt.
bool Breaks(ShareEnd end);

struct AttemptVerdict {
  std::size_t decisive = 0;  // index of the first share with the deciding end
  ShareEnd end = ShareEnd::kRuns;
  bool again = false;  // the job is queued again
  // Counts as one of the job's attempts; if none is left, the job ends in LastStateOf(end).
  bool costs = false;
};

// The ends in order of precedence: an attempt's result is the first of these that any of its shares has.
inline constexpr std::array kPrecedence = {
    ShareEnd::kRuns,         ShareEnd::kOutOfMemory,     ShareEnd::kFailed,
    ShareEnd::kTimedOut,     ShareEnd::kFailedByProcess, ShareEnd::kRefused,
    ShareEnd::kLost,         ShareEnd::kWithdrawn,       ShareEnd::kCancelled,
    ShareEnd::kFailedByPeer, ShareEnd::kStopped,         ShareEnd::kMeasured};

// Requires: at least one share, and all have ended.
AttemptVerdict VerdictOf(std::span<const ShareEnd> ends);

}  // namespace autocfg::server
