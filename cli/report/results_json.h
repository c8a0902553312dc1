// Converts a search's answer to JSON (docs/formats.md, "best.json") and back; `autocfg train --input` reads
// it. Pure functions, thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "nlohmann/json.hpp"
#include "search/plan/cluster/engine_device.h"
#include "search/plan/run.h"

namespace autocfg::cli {

// The inputs of a search.
struct SearchQuestion : Problem {
  EngineDevice device = EngineDevice::kCpu;  // that measures; not kDry
  bool predict_only = false;                 // nothing is measured
  bool kept = true;                          // the database has the study
  std::string coordinator = {};              // whose workers measured; empty: this machine
  std::vector<std::string> notes = {};       // assumptions, and caveats of the answer
  std::vector<std::string> not_considered =
      {};  // by a search: ways of splitting, and options left at default
};

// Sets what trained: its name and its version, which of the built-in engine is that of the build.
void SetEngine(const v1::Measurement& measurement, nlohmann::ordered_json& json);

nlohmann::ordered_json WorkloadJson(const Workload& workload);
// `device`: the device that measured or trained.
nlohmann::ordered_json VersionsJson(EngineDevice device);
// Sets breakdown_s, exposed_comm_s and hidden_comm_s to what is known of a step, and the rest to null. Null:
// nothing is known.
void SetBreakdown(const v1::Breakdown* breakdown, nlohmann::ordered_json& json);
// Converts as search/question/prediction_json.h does, plus tokens_per_s of the whole plan and hidden_comm_s.
nlohmann::ordered_json PredictionJson(const v1::Prediction& prediction, const ParallelPlan& plan,
                                      const SearchQuestion& question);
// `slice`: a single rank was measured, so there are no tokens per second. `emulated`: measured on the paced
// device.
nlohmann::ordered_json MeasurementJson(const v1::Measurement& measurement, const SearchQuestion& question);
// Returns how many plans a core evaluated in a second of planning; 0 if planning took no time.
double EvaluatedPerSecond(const v1::Recommendation& answer);
// InvalidArgument if a plan in the answer is invalid.
absl::StatusOr<nlohmann::ordered_json> CandidateJson(const v1::Candidate& candidate,
                                                     const SearchQuestion& question);
// Returns by how much longer the first runner-up takes than the best plan, as a fraction. Nothing if either
// is missing.
std::optional<double> LeadOf(const v1::Recommendation& answer);

// Predictions do not tell plans of one cluster apart whose step times differ by less than this fraction. The
// plan that is predicted to be the fastest took 3.4% longer than the fastest measured one, in the mean over
// 45 steps of GPTs on 8 to 64 nodes of A100s to which nothing was fitted (docs/predictions.md, "How good the
// predictions are"); identical runs that were published twice differ by 1% to 8%.
inline constexpr double kPredictionsTellApart = 0.03;

// The runners-up whose predicted times are too close to that of the best plan to say which is faster.
struct PredictionTies {
  int count = 0;
  // Of them, the one that leaves the most memory free, if it leaves more than the best plan by at least
  // kMuchMoreFree of a rank's memory: the choice if something else than predicted needs memory too.
  const v1::Candidate* roomier = nullptr;  // points into the answer
};
inline constexpr double kMuchMoreFree = 0.02;

// Nothing if the best plan was measured as a whole, or there is none: then predictions decide nothing.
std::optional<PredictionTies> PredictionTiesOf(const v1::Recommendation& answer);
// Returns the free part of a rank's memory, from 0 to 1.
double FreeShare(const v1::Prediction& predicted);
absl::StatusOr<nlohmann::ordered_json> SearchJson(const v1::Recommendation& answer,
                                                  const SearchQuestion& question);

// The part of the file that a run needs.
struct BestPlan {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;
  std::optional<ClusterSpec> cluster = {};   // if the cluster is a described one
  bool local = false;                        // the cluster is this machine; else the file may name none
  bool remote = false;                       // as local, but it is the workers of a coordinator
  std::string engine = {};                   // whose step was predicted or measured; empty: not said
  std::int64_t ranks_per_node = 0;           // where no cluster says it; 0: unknown
  std::optional<double> memory_margin = {};  // of the search, for its cluster; empty: not said
};
// InvalidArgument names the field. FailedPrecondition if the search found nothing that fits.
absl::StatusOr<BestPlan> ParseSearchJson(const std::string& text);

}  // namespace autocfg::cli
