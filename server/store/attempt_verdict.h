// How a share of an attempt ended, and what the ends of all its shares make of the attempt. Pure,
// thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

// In the order of what decides: the first that an attempt has among its shares is what the attempt came to.
// The numbers are stored.
enum class ShareEnd : int {
  kRuns = 0,
  kOutOfMemory = 1,
  kFailed = 2,  // of its own: it would fail again
  kTimedOut = 3,
  kFailedByProcess = 4,
  kRefused = 5,
  kLost = 6,
  kWithdrawn = 7,  // the lease never reached its worker, or the worker was stopped in order
  kCancelled = 8,  // given back unasked
  kFailedByPeer = 9,
  kStopped = 10,  // given back after the attempt was told to stop
  kMeasured = 11,
};

// Of a report; kRuns for an outcome that is missing or unknown. FAILED of no kind is a failure of its own.
// `stopping`: the attempt had been told to stop by then.
ShareEnd EndOf(v1::Outcome outcome, v1::FailureKind failure, bool stopping);

// The state that an attempt with this end has; RUNNING for kRuns.
v1::TrialState StateOf(ShareEnd end);

// The state of a job whose attempts are over with this end: StateOf, but LOST where its worker gave it back,
// since nobody has cancelled it.
v1::TrialState LastStateOf(ShareEnd end);

// Whether a share that ended so stops the others of its attempt.
bool Breaks(ShareEnd end);

struct AttemptVerdict {
  std::size_t decisive = 0;  // the first share with the end that decides
  ShareEnd end = ShareEnd::kRuns;
  bool again = false;  // the job is queued again
  // against its bound of attempts; where that is used up, the job ends in LastStateOf(end)
  bool costs = false;
};

// Requires at least one share, and that all have ended.
AttemptVerdict VerdictOf(std::span<const ShareEnd> ends);

}  // namespace autocfg
