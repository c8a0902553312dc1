// Starts one trainer process per rank, relays their rendezvous, watches and kills them (docs/architecture.md,
// "A rank talks only to its launcher and its peers"). Thread-safe: Run may be called from several threads,
// each job has processes of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autocfg/v1/trainer.pb.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/exchange.h"

namespace autocfg {

enum class JobOutcome : std::uint8_t { kDone, kOutOfMemory, kBadInput, kFailed, kTimedOut, kCancelled };

struct RankOutcome {
  bool finished = false;          // sent its result and exited with 0
  bool failed = false;            // before the ranks were being ended
  autocfg::v1::RankMessage last;  // result or error; unset if it sent neither
  int exit_status = 0;            // as waitpid gives it
  std::string log_tail;           // the end of what it wrote to standard error
};

struct JobResult {
  JobOutcome outcome = JobOutcome::kFailed;
  std::string message;           // the first failing rank's own error, one line: "rank 3: ..."
  int first_failed_rank = -1;    // of the whole job, as in messages
  autocfg::v1::RankError error;  // of that rank, where it sent one
  // where a rank failed, or could not be started
  autocfg::v1::FailureKind failure = autocfg::v1::FAILURE_KIND_UNSPECIFIED;
  std::vector<RankOutcome> ranks;  // those that ran here, in their order
  double wall_s = 0;
};

struct JobRequest {
  // one per rank that runs here; their numbers follow each other, world_size is that of the whole job
  std::vector<autocfg::v1::RunSpec> ranks;
  std::chrono::duration<double> time_limit{0};  // 0 = none
  std::vector<std::vector<int>> cores;          // by place in `ranks`: the cores to pin it to; empty = none
  // by place in `ranks`: the one GPU that it sees, by uuid; empty = those of this program
  std::vector<std::string> gpus;
};

struct LaunchHooks {
  std::function<void(int rank, const autocfg::v1::Progress&)> progress;  // rank: of the whole job
  const std::atomic<bool>* cancel = nullptr;  // becomes true: the job is killed and kCancelled
  // Called once all processes have started, with their pids; for tests and for the log.
  std::function<void(const std::vector<int>& pids)> started;
  ExchangeHook exchange;  // asked for where ranks of the job run elsewhere
};

class ProcessLauncher {
 public:
  // `trainer_path`: the autocfg-trainer program. It is started as
  //   autocfg-trainer --launcher-fd=3 [--cpu-list=0,1,...]
  // with its socket at descriptor 3, and pins itself to the cores it is given; to its GPU it is pinned by
  // CUDA_VISIBLE_DEVICES.
  explicit ProcessLauncher(std::string trainer_path);

  // Returns when every process has ended and has been reaped. The first rank that fails ends the others
  // within seconds (terminate, then kill of the whole process group). Nothing stays behind: no process, no
  // shared-memory segment.
  JobResult Run(const JobRequest& request, const LaunchHooks& hooks = {});

 private:
  std::string trainer_path_;
};

// The trainer beside this program's own executable, or $AUTOCFG_TRAINER.
std::string FindTrainer();

}  // namespace autocfg
