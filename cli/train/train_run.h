// Loads what `autocfg train` runs, from its options and the files that they name, and checks if it may start.
// Errors name the option or the file. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "cli/train/train_options.h"
#include "kernels/nvml/gpus.h"
#include "proto/answer/answer_file.h"
#include "search/cost/op_times/op_time_model.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/cluster/engine_device.h"

namespace autocfg::cli {

// Bytes that a rank may use, including its device's overhead; 0 means no limit.
struct Capacity {
  std::int64_t bytes = 0;
  std::int64_t overhead_bytes = 0;  // of the device itself, as far as known before the run
};

struct TrainRun {
  BestPlan what;  // the plan as the ranks run it: legal, canonical, with a definite split
  EngineDevice device = EngineDevice::kCpu;
  GpuList machine;                           // with device kCuda: the GPUs it runs on
  std::optional<ClusterSpec> emulated;       // on the paced device: the emulated cluster
  std::optional<v1::Slice> slice;            // if set, runs only this rank
  std::shared_ptr<const OpTimeModel> times;  // of the emulated cluster, else nominal
  std::int64_t steps = 0;
  std::int64_t save_every = 0;  // steps from checkpoint to checkpoint; 0: one, at the end
  std::int64_t trace_steps = 1;
  std::optional<std::vector<std::int32_t>> trace_ranks;  // empty: those that a trace has by default
  std::uint64_t seed = 0;
  v1::OptimizerSpec optimizer;
  Capacity capacity;
  std::vector<std::string> notes;  // printed once all checks pass
};

// Loads the model, the workload, the plan and the device. The plan is legal and one that the engine runs.
absl::StatusOr<TrainRun> LoadTrainRun(const TrainArgs& args);

// InvalidArgument if options contradict each other.
absl::Status CheckTogether(const TrainArgs& args, const TrainRun& run);

// Checks that input files are readable, that the checkpoint is one of this run, and that output files can be
// written at the end. Errors as in cli/input/files.h and cli/train/checkpoint_run.h.
absl::Status CheckFiles(const TrainArgs& args, const TrainRun& run);

// FailedPrecondition, with the sizes and the region, if a rank's arena exceeds its capacity. The dry device
// has no limit.
absl::Status CheckFits(const TrainRun& train);

}  // namespace autocfg::cli
