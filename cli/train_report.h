// What a training run says: steps while it runs, a summary at its end, as a table or as JSON
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
#include "search/plan/model_spec.h"
#include "search/plan/workload.h"
#include "worker/process_launcher.h"

namespace autocfg {

struct RunDescription {
  ModelSpec model;
  Workload workload;
  std::string plan;
  std::string device;
  std::int64_t ranks = 1;
  std::optional<v1::Slice> slice = {};  // this rank ran alone
  std::string emulated = {};            // on the paced device: the cluster that it stood for
};

struct TrainSummary {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  std::vector<double> step_time_s;        // the slowest rank's, each step
  std::optional<double> tokens_per_s;     // by the median step, the first left out where there are more
  std::int64_t planned_memory_bytes = 0;  // these three: the worst rank's
  std::int64_t peak_memory_bytes = 0;
  std::int64_t device_overhead_bytes = 0;
};

// Internal where a rank sent no result, or ranks of different lengths. On the dry device no step has a loss,
// a norm or a time, and there are no tokens per second.
absl::StatusOr<TrainSummary> SummaryOf(const JobResult& result, const Workload& workload);

// The first step whose loss or gradient norm is not finite, as "step 3: the loss is nan"; empty without one.
std::string Divergence(const TrainSummary& summary);

nlohmann::ordered_json TrainJson(const TrainSummary& summary, const RunDescription& run);
// What stands below the table of steps.
std::string TrainReport(const TrainSummary& summary, const RunDescription& run);

// Steps as rank 0 reports them, each with the slowest rank's time: rows on standard output; with `json`, a
// counter on standard error where that can be drawn on. Nothing where the device does not compute.
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

}  // namespace autocfg
