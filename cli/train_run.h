// What `autocfg train` is to run, from its options and the files that they name. Whether it may begin:
// train_checks.h. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "cli/optimizer_options.h"
#include "cli/results_json.h"
#include "kernels/nvml/gpus.h"
#include "search/cost/op_time_model.h"
#include "search/plan/cluster_spec.h"

namespace autocfg {

struct TrainArgs {
  std::string model, plan, input, global_batch, seq_len, precision, data, device, cluster, init, save, trace,
      slice;
  std::string seed = "1", steps;
  OptimizerOptions optimizer;
  bool json = false;
};

// Bytes that a rank may use, its device's own among them; 0 = as many as it likes.
struct Capacity {
  std::int64_t bytes = 0;
  std::int64_t overhead_bytes = 0;  // of the device itself, as far as it is known before the run
};

struct TrainRun {
  BestPlan what;  // its plan as the ranks run it: legal, canonical, its split definite
  std::string device;
  GpuList machine;                           // on device cuda: what it runs on
  std::optional<ClusterSpec> emulated;       // on the paced device: what it stands for
  std::optional<v1::Slice> slice;            // this rank alone
  std::shared_ptr<const OpTimeModel> times;  // of what is emulated, else nominal
  std::int64_t steps = 0;
  std::uint64_t seed = 0;
  v1::OptimizerSpec optimizer;
  Capacity capacity;
  std::vector<std::string> notes;  // to be said once all is checked
};

// Errors name the option or the file.
absl::StatusOr<TrainRun> LoadTrainRun(const TrainArgs& args);

}  // namespace autocfg
