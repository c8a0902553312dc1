// Tells the coordinator how a job has ended. Thread-safe.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/job_runner.h"
#include "worker/worker_calls.h"

namespace autocfg {

// The report as a message. Its request_id is the same for the same lease, so that repeats are harmless.
v1::ReportTrialRequest ReportOf(const std::string& worker, const Registration& session,
                                const v1::LeaseWorkResponse& lease, const JobReport& report);

// Sends the log, once, then the report, until it is accepted or refused, or `give_up` is true after a try
// that failed. `stopping` ends pauses early. What does not get through is a line in the log. In place of a
// report that is refused as wrong in itself, one goes out that this worker failed at the job, so that another
// may try.
void SendReport(const WorkerCalls& calls, const Registration& session, const v1::LeaseWorkResponse& lease,
                const JobReport& report, CallGroup& stopping, const std::function<bool()>& give_up);

}  // namespace autocfg
