// A search's answer as JSON (docs/formats.md, "best.json"), and back: what `autocfg train --input` reads.
// Pure functions, thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "nlohmann/json.hpp"
#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// What was asked.
struct SearchQuestion {
  ModelSpec model;
  ClusterSpec cluster;
  Workload workload;
  std::string device = "cpu";           // that measures: cpu, cuda, or paced, which emulates the cluster
  bool predict_only = false;            // nothing is measured
  std::string coordinator = {};         // whose workers measured; empty: this machine did
  std::vector<std::string> notes = {};  // what was assumed, and what else to know of the answer
};

nlohmann::ordered_json WorkloadJson(const Workload& workload);
// `device`: what measured, or trained.
nlohmann::ordered_json VersionsJson(const std::string& device);
// As search/text/prediction_json.h has it, with tokens_per_s of the whole plan.
nlohmann::ordered_json PredictionJson(const v1::Prediction& prediction, const ParallelPlan& plan,
                                      const SearchQuestion& question);
// `slice`: one rank was measured alone, so that there are no tokens per second; `emulated`: on the paced
// device.
nlohmann::ordered_json MeasurementJson(const v1::Measurement& measurement, const SearchQuestion& question);
// InvalidArgument where a plan in the answer is none.
absl::StatusOr<nlohmann::ordered_json> CandidateJson(const v1::Candidate& candidate,
                                                     const SearchQuestion& question);
absl::StatusOr<nlohmann::ordered_json> SearchJson(const v1::Recommendation& answer,
                                                  const SearchQuestion& question);

// What a run needs of the file.
struct BestPlan {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;
  std::optional<ClusterSpec> cluster = {};  // where it is one that is described
};
// InvalidArgument names the field; FailedPrecondition where the search found nothing that fits.
absl::StatusOr<BestPlan> ParseSearchJson(const std::string& text);

}  // namespace autocfg
