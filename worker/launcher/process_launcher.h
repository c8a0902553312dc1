// Starts one trainer process per rank, relays their rendezvous, watches and kills them (docs/architecture.md,
// "A rank talks only to its launcher and its peers"). Thread-safe: several threads may call Run, and each job
// has its own processes.
//
// Each job has a supervisor, the parent of its ranks (worker/supervisor/orders.h). So this program has one
// child for each job, and waits for no other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "autocfg/v1/trainer.pb.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/launcher/exchange.h"
#include "worker/launcher/job_allowance.h"

namespace autocfg::worker {

// How the process of a rank ended, and what it sent.
struct RankEnd {
  bool finished = false;          // sent its result and exited with status 0
  bool failed = false;            // before the launcher began to end the ranks
  autocfg::v1::RankMessage last;  // result or error; unset if it sent neither
  int exit_status = 0;            // as from waitpid; 0 if unknown, because the job's supervisor ended
  std::string log_tail;           // end of its standard error output
};

struct JobResult {
  // OUTCOME_MEASURED if every rank sent its result and exited with status 0. Never UNSPECIFIED or REFUSED.
  autocfg::v1::Outcome outcome = autocfg::v1::OUTCOME_FAILED;
  // set if a rank failed or could not start
  autocfg::v1::FailureKind failure = autocfg::v1::FAILURE_KIND_UNSPECIFIED;
  std::string message;         // the first failing rank's own error, one line: "rank 3: ..."
  int first_failed_rank = -1;  // in the whole job, as in messages
  // From that rank, if it sent one. INVALID_ARGUMENT if the launcher itself rejects the request.
  autocfg::v1::RankError error;
  std::vector<RankEnd> ranks;  // ranks that ran here, in order
  double wall_s = 0;

  // Returns true if the job failed because of what it asked for: the same request fails everywhere.
  bool bad_input() const;
};

struct JobRequest {
  // One per rank that runs here, with consecutive numbers. world_size is that of the whole job.
  std::vector<autocfg::v1::RunSpec> ranks;
  std::chrono::duration<double> time_limit{0};  // without exchanges; 0 = no limit
  // Time without progress of the job's first rank, if it runs here, without exchanges; 0 = no limit
  std::chrono::duration<double> stall_limit{0};
  std::vector<std::vector<int>> cores;  // cores of each rank, by place in `ranks`; empty = not pinned
  // UUID of the one GPU visible to each rank, by place in `ranks`; empty = the GPUs of this program
  std::vector<std::string> gpus;
  JobLimits limits;                           // of what its processes here take
  std::vector<std::string> environment = {};  // variables of all ranks, as NAME=value
};

struct LaunchHooks {
  std::function<void(int rank, const autocfg::v1::Progress&)> progress;  // rank: in the whole job
  const std::atomic<bool>* cancel = nullptr;  // when it becomes true, the job is killed: CANCELLED
  // Polled until it returns true. Then the ranks are asked to end after their step, with a checkpoint
  // (StopRequest); a run that writes none goes on.
  std::function<bool()> finish;
  // Called with the pids once all processes have started; for tests and the log.
  std::function<void(const std::vector<int>& pids)> started;
  ExchangeHook exchange;  // required if other workers run ranks of the job
};

// Returns the supervisor beside this program's executable or in ../bin of it. If neither exists, returns
// where it should be.
std::string FindSupervisor();

class ProcessLauncher {
 public:
  // `trainer_path`: the autocfg-trainer program. Started as
  //   autocfg-trainer --launcher-fd=3 [--cpu-list=0,1,...]
  // with its socket as descriptor 3. The program pins itself to the given cores; CUDA_VISIBLE_DEVICES selects
  // its GPU.
  // `supervisor_path`: the autocfg-supervisor program.
  // `allowance`: for those who make requests (worker/jobs); Run takes the limits of its request alone.
  explicit ProcessLauncher(std::string trainer_path, std::string supervisor_path = FindSupervisor(),
                           const JobAllowance& allowance = {});

  const JobAllowance& allowance() const { return allowance_; }

  // Returns when every process has ended and been reaped, also those that a rank moved to other sessions or
  // left behind. The first failing rank makes the launcher end the others within seconds: SIGTERM, then
  // SIGKILL. Leaves no shared-memory segment behind. A process that the kernel does not end within
  // kOrphanKillLimit of SIGKILL is logged and left behind, unless it is a rank.
  JobResult Run(const JobRequest& request, const LaunchHooks& hooks = {});

 private:
  std::string trainer_path_;
  std::string supervisor_path_;
  JobAllowance allowance_;
};

// Returns $AUTOCFG_TRAINER, or else the trainer beside this program's executable.
std::string FindTrainer();

// NotFound, with what to do, if FindSupervisor's program is missing.
absl::Status CheckSupervisor();

}  // namespace autocfg::worker
