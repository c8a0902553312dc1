// Output of a training run: steps while it runs and a summary at its end, as a table or as JSON
// (docs/formats.md, "A run's result"). TrainDisplay may be used from the launcher's thread; the rest are pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autocfg/v1/trainer.pb.h"
#include "cli/train/step_log.h"
#include "nlohmann/json.hpp"
#include "search/plan/cluster/engine_device.h"
#include "search/plan/model_spec.h"
#include "search/plan/workload.h"

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

// In the functions below, `result` is the merged result of the ranks (worker::TrainResultOf). On the dry
// device no step has a loss, a norm or a time.

// Returns the rate of the median step, without the first if there are more. Returns nullopt if no step was
// timed, and for a slice, whose time is not the step's.
std::optional<double> TokensPerSecond(const v1::TrainResult& result, const RunDescription& run);

// Returns the first step whose loss or gradient norm is not finite, as "step 3: the loss is nan"; empty if
// all are finite.
std::string Divergence(const v1::TrainResult& result);

nlohmann::ordered_json TrainJson(const v1::TrainResult& result, const RunDescription& run);
// Returns the text below the table of steps.
std::string TrainReport(const v1::TrainResult& result, const RunDescription& run);

// Shows the steps that rank 0 reports, each with the slowest rank's time. Prints rows on standard output;
// with `json`, a counter on standard error if it can be drawn. Prints nothing if the device does not compute.
class TrainDisplay {
 public:
  // `run`: what MFU follows from; none is shown without. `log`: gets a row for each step; may be null. Both
  // outlive the display. `out` takes the rows.
  TrainDisplay(bool json, bool computes, std::int64_t steps, const Workload& workload,
               std::optional<PlannedRun> run = std::nullopt, StepLog* log = nullptr, std::FILE* out = stdout);
  void Step(int rank, const v1::Progress& progress);
  void End();

 private:
  const bool json_;
  const bool computes_;
  const bool terminal_;
  const std::int64_t steps_;
  const Workload workload_;
  const std::optional<PlannedRun> run_;
  StepLog* const log_;
  std::FILE* const out_;
  bool begun_ = false;
};

}  // namespace autocfg::cli
