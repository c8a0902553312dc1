// Reports to the coordinator how a job ended. Thread-safe.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/jobs/job_runner.h"
#include "worker/jobs/worker_calls.h"

namespace autocfg::worker {

// Builds the report message. request_id depends only on the lease, so repeated reports are idempotent.
v1::ReportTrialRequest ReportOf(const std::string& worker, const Registration& session,
                                const v1::LeaseWorkResponse& lease, const JobReport& report);

// Sends the log once, then repeats the report until it is accepted or rejected, or until `give_up` returns
// true after a failed attempt. `stopping` ends pauses early. Logs what could not be sent. If the coordinator
// rejects the report as invalid, sends one that this worker failed at the job, so that another may try it.
void SendReport(const WorkerCalls& calls, const Registration& session, const v1::LeaseWorkResponse& lease,
                const JobReport& report, CallGroup& stopping, const std::function<bool()>& give_up);

}  // namespace autocfg::worker
