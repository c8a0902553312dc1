// A leased job -> processes -> one report: builds the ranks' run specs, pins them to cores and GPUs, runs
// them with the launcher and puts what they say together. Thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "autocfg/v1/worker_service.pb.h"
#include "worker/gpu_health.h"
#include "worker/process_launcher.h"

namespace autocfg {

// What to tell the coordinator of a job, or of a worker's share of one, that has ended.
struct JobReport {
  v1::Outcome outcome = v1::OUTCOME_FAILED;
  std::string message;                                     // the failing rank's own error; UTF-8
  v1::FailureKind failure = v1::FAILURE_KIND_UNSPECIFIED;  // with OUTCOME_FAILED
  // what failing ranks wrote last, each under a line with its number; UTF-8, at most kMaxLogBytes
  std::string log;
  std::optional<v1::Measurement> measurement;
  std::optional<v1::CalibrateResult> calibration;
};

inline constexpr std::size_t kMaxLogBytes = 32 << 10;
inline constexpr std::size_t kMaxMessageBytes = 8 << 10;

// By rank, the core that it is pinned to: each its own where there are enough, else core (rank mod cores).
// Empty where `cores` is.
std::vector<std::vector<int>> PinRanks(int ranks, const std::vector<int>& cores);

// By rank, the GPU that it sees: GPU (rank mod GPUs), so that more ranks than GPUs share them in turns. Empty
// where `gpus` is.
std::vector<std::string> PinToGpus(int ranks, const std::vector<std::string>& gpus);

// The uuids of the GPUs that ranks run on, in their order.
std::vector<std::string> UsableGpus(const v1::Inventory& inventory);

// Slots that the job takes of a worker: its share's ranks, else job.ranks, or where it says that they may be
// fewer, as many of them as the worker has.
int SlotsToTake(const v1::LeaseWorkResponse& lease, const v1::Inventory& inventory);

// The slots, of those that a job has been given, that it runs a rank on, in their order: all, or where its
// ranks may be fewer, the first on each core (for device cuda: GPU), so that copies of one rank do not
// contend for them. Slot i is core i mod cores, and GPU i mod GPUs.
std::vector<int> SlotsToUse(const v1::Job& job, const v1::Inventory& inventory,
                            const std::vector<int>& slots);

// `gpus`: what a job on device cuda is pinned to, and not to `cores`: a rank on a GPU has threads of the
// driver and of NCCL beside it, and draws its initial weights with as many as there are cores. Other jobs are
// pinned to cores alone. Requires: job.ranks > 0 and a kind of work; RunJob checks it.
JobRequest MakeJobRequest(const v1::Job& job, const std::vector<int>& cores,
                          const std::vector<std::string>& gpus = {});

// A training job's ranks as one measurement. They work in step, so a step takes as long as its slowest rank
// (the ranks have left the warm-up steps out already); memory figures are the worst rank's. The interval is
// that of search/stats; one step alone says nothing of its spread, so that it is the step itself. device_s =
// ranks * wall. Empty where the ranks' answers do not fit together or no step was timed.
std::optional<v1::Measurement> MeasurementOf(const JobResult& result);

// A calibration job's ranks as one: an op that computes takes the mean of the ranks (that is what the cost
// model's ranks do on average); one that communicates takes the slowest rank's (it is over when all have it).
// In the order in which ops are first seen.
v1::CalibrateResult CalibrationOf(const JobResult& result);

// Runs the job, or the lease's share of it, to its end on these slots. What it measures is of the ranks that
// run here. Adds build id, fingerprint, ranks per core and ranks per GPU of `inventory` to the measurement. A
// job of GPUs waits until they are free, for `patience` at most; OUTCOME_REFUSED, with nothing run, where
// they are not, or where the worker has none. Requires: as many slots as SlotsToTake says; a share needs
// hooks.exchange.
JobReport RunJob(const v1::LeaseWorkResponse& lease, const v1::Inventory& inventory,
                 const std::vector<int>& cores, const std::vector<int>& slots, ProcessLauncher& launcher,
                 const LaunchHooks& hooks, std::chrono::duration<double> patience = kGpuPatience);

}  // namespace autocfg
