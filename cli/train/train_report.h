// Output of a training run: steps while it runs and a summary at its end, as a table or as JSON
// (docs/formats.md, "A run's result"). TrainDisplay may be used from the launcher's thread; the rest are pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "nlohmann/json.hpp"
#include "search/plan/engine_device.h"
#include "search/plan/model_spec.h"
#include "search/plan/workload.h"
#include "worker/launcher/process_launcher.h"

namespace autocfg::cli {

struct RunDescription {
  ModelSpec model;
  Workload workload;
  std::string plan;
  EngineDevice device = EngineDevice::kCpu;
  std::int64_t ranks = 1;
  std::optional<v1::Slice> slice = {};  // if set, only this rank ran
  std::string emulated = {};            // on the paced device: the emulated cluster
};

struct TrainSummary {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  std::vector<double> step_time_s;        // per step, of the slowest rank
  std::optional<double> tokens_per_s;     // from the median step, without the first if there are more
  std::int64_t planned_memory_bytes = 0;  // maximum over ranks, as are the next two
  std::int64_t peak_memory_bytes = 0;
  std::int64_t device_overhead_bytes = 0;
};

// Internal if a rank sent no result, or if ranks timed different numbers of steps. On the dry device no step
// has a loss, a norm or a time, and there are no tokens per second.
absl::StatusOr<TrainSummary> SummaryOf(const worker::JobResult& result, const Workload& workload);

// Returns the first step whose loss or gradient norm is not finite, as "step 3: the loss is nan"; empty if
// all are finite.
std::string Divergence(const TrainSummary& summary);

nlohmann::ordered_json TrainJson(const TrainSummary& summary, const RunDescription& run);
// Returns the text below the table of steps.
std::string TrainReport(const TrainSummary& summary, const RunDescription& run);

// Shows the steps that rank 0 reports, each with the slowest rank's time. Prints rows on standard output;
// with `json`, a counter on standard error if it can be drawn. Prints nothing if the device does not compute.
class TrainDisplay {
 public:
  TrainDisplay(bool json, bool computes, std::int64_t steps, const Workload& workload);
  void Step(int rank, const v1::Progress& progress);
  void End();

 private:
  const bool json_;
  const bool computes_;
  const bool terminal_;
  const std::int64_t steps_;
  const Workload workload_;
  bool begun_ = false;
};

}  // namespace autocfg::cli
