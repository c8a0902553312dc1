// Loads what `autocfg train` runs, from its options and the files that they name. train_checks.h checks if
// the run may start. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "cli/input/optimizer_options.h"
#include "cli/report/results_json.h"
#include "kernels/nvml/gpus.h"
#include "search/cost/op_times/op_time_model.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/engine_device.h"

namespace autocfg::cli {

struct TrainArgs {
  std::string model, plan, input, global_batch, seq_len, precision, data, device, cluster, init, save, trace,
      slice;
  std::string seed = "1", steps;
  OptimizerOptions optimizer;
  bool json = false;
};

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
  std::uint64_t seed = 0;
  v1::OptimizerSpec optimizer;
  Capacity capacity;
  std::vector<std::string> notes;  // printed once all checks pass
};

// Errors name the option or the file.
absl::StatusOr<TrainRun> LoadTrainRun(const TrainArgs& args);

}  // namespace autocfg::cli
