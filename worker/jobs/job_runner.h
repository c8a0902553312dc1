// Runs a leased job: builds the run specs of the ranks, pins them to cores and GPUs, runs them with the
// launcher, and merges their results into one report. Thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/engines/engine_file.h"
#include "worker/jobs/job_files.h"
#include "worker/jobs/job_report.h"
#include "worker/launcher/process_launcher.h"
#include "worker/machine/gpu_health.h"

namespace autocfg::worker {

// Returns the request that runs these ranks of a job. A job on device cuda is pinned to `gpus` and not to
// `cores`: its ranks also run driver and NCCL threads, and initialize weights with one thread per core. Other
// jobs are pinned to cores only. Requires: a share of at least one rank, within the job's, and a kind of
// work; RunJob checks both.
JobRequest MakeJobRequest(const v1::Job& job, const v1::Share& share, const std::vector<int>& cores,
                          const std::vector<std::string>& gpus);
// Same, for all ranks.
JobRequest MakeJobRequest(const v1::Job& job, const std::vector<int>& cores,
                          const std::vector<std::string>& gpus = {});

// Merges the ranks of a training job (MergeRanks in proto/merge_results.h). The ranks are synchronized, so a
// step takes as long as its slowest rank. Internal if a rank sent no result or the results do not match.
absl::StatusOr<v1::TrainResult> TrainResultOf(const JobResult& result);

// Returns the measurement of a training job, with the timeline of its recorded step if it has one. device_s =
// ranks * wall. There is no measurement if the ranks' results do not match or no step was timed.
JobReport MeasuredReport(const JobResult& result);

// Merges the ranks of a calibration job (MergeCalibrations in proto/merge_results.h). A compute op takes the
// mean of the ranks, as the cost model's ranks do on average. A communication op takes the slowest rank's
// time, because it ends when all ranks are done.
v1::CalibrateResult CalibrationOf(const JobResult& result);

// Runs the job, or the lease's share of it, on these slots and waits for its end. The results cover the ranks
// that run here. Adds the build ID, fingerprint, ranks per core and ranks per GPU of `inventory` to the
// measurement. A GPU job first waits up to `patience` for its GPUs to be free. Returns OUTCOME_REFUSED,
// without running anything, if they are not free, if the worker has none, or if the job names files that
// `files` does not allow, or an engine that `engines` does not offer (null: none). A job that takes more than
// the launcher's allowance is killed. Requires: as many slots as SlotsToTake returns; hooks.exchange if the
// lease has a share.
JobReport RunJob(const v1::LeaseWorkResponse& lease, const v1::Inventory& inventory,
                 const JobFileRules& files, const std::vector<int>& cores, const std::vector<int>& slots,
                 ProcessLauncher& launcher, const LaunchHooks& hooks,
                 std::chrono::duration<double> patience = kGpuPatience, const EngineOffer* engines = nullptr);

}  // namespace autocfg::worker
