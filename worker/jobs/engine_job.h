// Runs a worker's share of a trial with an engine of its own files: writes the exported file, agrees with the
// other workers on the first node's address, runs the engine's command and reads its log. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "autocfg/v1/worker_service.pb.h"
#include "search/frameworks/exported_run.h"
#include "worker/engines/engine_file.h"
#include "worker/engines/engine_run.h"
#include "worker/engines/node_address.h"
#include "worker/jobs/job_report.h"
#include "worker/launcher/process_launcher.h"

namespace autocfg::worker {

// The run that a job's file describes. It has no text of the job that could be more than a part of a line.
// InvalidArgument or Unimplemented for a job that no engine can run.
absl::StatusOr<ExportedRun> ExportedRunOf(const v1::Job& job, const v1::Share& share);

// The processes of a share, in the order of their ranks: one, or one per rank. `scratch`: the directory of
// the exported file `text`, `file` its name. `gpus`: those that the ranks may see; empty: not set.
std::vector<EngineProcess> EngineProcesses(
    const EngineFile& engine, const v1::Job& job, const v1::Share& share, const NodePlace& place,
    const std::string& scratch, const std::string& file, const std::string& text,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::vector<std::string>& gpus);

struct EngineSetting {
  const EngineFile& engine;
  std::string address;            // EngineOffer
  std::string host;               // of this machine
  std::vector<std::string> gpus;  // distinct, of the share's slots; empty: on the CPU
  std::string supervisor_path;
  JobLimits limits = {};  // of what the share's processes take
};

// Requires a training job that names the engine. The measurement has steps, memory, losses and the engine; of
// a job that spans workers it may have no step, and then the report has the log. hooks.exchange: if it spans.
JobReport RunEngineJob(const v1::Job& job, const v1::Share& share, const EngineSetting& setting,
                       const LaunchHooks& hooks);

}  // namespace autocfg::worker
