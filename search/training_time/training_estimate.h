// Days, GPU hours and cost of a whole training run, from the time of one step. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "search/plan/run.h"

namespace autocfg {

// Seconds from a failure until the job computes again, unless the user knows better: detecting the failure,
// replacing the node, starting the processes and reading the checkpoint.
inline constexpr double kRestartSeconds = 600;

// Bytes per second that a node writes to storage while all nodes of a job write at once, unless the user
// gives the time of a checkpoint. The storage of the Llama 3 cluster sustained 2 TB/s (Grattafiori et al.
// 2024, section 3.3.1), which is 1 GB/s for each of the 2,048 nodes (16,384 GPUs) of the 405B run.
inline constexpr double kStorageBytesPerNodeSecond = 1e9;

// What is asked about a run. Empty: not asked.
struct TrainingTerms {
  std::optional<double> tokens = {};              // of the whole run
  std::optional<double> price_per_gpu_hour = {};  // in any currency
  std::optional<double> node_mtbf_s = {};         // mean time between failures of one node
  // Time of a checkpoint; empty: CheckpointBytes over the nodes' kStorageBytesPerNodeSecond.
  std::optional<double> checkpoint_s = {};
  double restart_s = kRestartSeconds;
  bool Asked() const { return tokens || price_per_gpu_hour || node_mtbf_s; }
};

struct FailureEstimate {
  double job_mtbf_s = 0;
  double checkpoint_s = 0;
  double restart_s = 0;
  bool progresses = false;
  // Only if the job progresses:
  double checkpoint_interval_s = 0;  // of computing between checkpoints; at most the whole run
  double slowdown = 0;               // expected wall time over the time without failures and checkpoints
  std::optional<double> days = {}, gpu_hours = {}, cost = {};  // expected; they include `slowdown`
};

// A GPU is a rank of the cluster, whether it has work or not.
struct TrainingEstimate {
  double step_time_s = 0;
  std::optional<double> tokens = {};
  std::optional<std::int64_t> steps = {};  // rounded up
  std::optional<double> days = {};         // tokens / (global_batch x seq_len) x step_time_s / 86400
  std::optional<double> gpu_hours = {};
  std::optional<double> price_per_gpu_hour = {};  // as it was asked
  std::optional<double> cost = {};
  std::optional<double> cost_per_billion_tokens = {};
  std::optional<FailureEstimate> failures = {};
};

// Returns the bytes of a checkpoint: all parameters in their type, and the optimizer's states (moments, and
// the master weights where the precision has them).
double CheckpointBytes(const ModelSpec& model, const Workload& workload);

// Requires terms above zero, step_time_s > 0 and a valid problem.
TrainingEstimate EstimateTraining(const TrainingTerms& terms, const Problem& problem, double step_time_s);

}  // namespace autocfg
