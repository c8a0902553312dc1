// Runs the processes of an engine under a supervisor of their own, reads their logs, and ends them and all
// that they leave behind. Thread-safe: several threads may run one each.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autocfg/v1/worker_service.pb.h"
#include "worker/engines/engine_file.h"
#include "worker/engines/log_reader.h"
#include "worker/launcher/process_launcher.h"
#include "worker/supervisor/orders.h"

namespace autocfg::worker {

struct EngineProcess {
  RankCommand command;  // foreign
  int rank = -1;        // in the whole job; -1: it is the process of a node
};

struct EngineRun {
  std::vector<EngineProcess> processes;
  const LogRules& rules;
  StepSize size;
  EngineLimits limits;
  std::chrono::duration<double> time_limit{0};  // of the job; 0: none
  // Another node's log may tell of the steps, so that the limits of steps count from the first one here.
  bool spans_workers = false;
  std::string supervisor_path;
  JobLimits job_limits = {};  // of what its processes here take
};

struct EngineRunResult {
  // OUTCOME_MEASURED if every process exited with status 0, whatever the log says.
  v1::Outcome outcome = v1::OUTCOME_FAILED;
  v1::FailureKind failure = v1::FAILURE_KIND_UNSPECIFIED;  // with OUTCOME_FAILED
  std::string message;                                     // one line
  std::vector<LogReader> logs;                             // of the processes that started, in order
  double wall_s = 0;
};

// Returns when every process has ended and been reaped, also those that they moved to other sessions. The
// first process that fails ends the others: SIGTERM, then SIGKILL. `cancel`: when it becomes true, all are
// ended.
EngineRunResult RunEngine(const EngineRun& run, const std::atomic<bool>* cancel,
                          const std::function<void(const std::vector<int>& pids)>& started = {});

// Fills in the version of each engine that has a version_command, by running it. FailedPrecondition names the
// engine whose command fails, takes more than a minute or prints no line.
absl::Status ReadEngineVersions(std::vector<EngineFile>& engines, const std::string& supervisor_path,
                                const std::atomic<bool>* cancel = nullptr);

}  // namespace autocfg::worker
