#include <string>

#include "nlohmann/json.hpp"
#include "search/export/writers.h"
#include "search/plan/plan_text.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"

namespace autocfg {

absl::StatusOr<ExportedFile> WriteOwnForm(const ExportedRun& run) {
  nlohmann::ordered_json json{{"model", ModelJson(run.model)},
                              {"workload",
                               {{"global_batch", run.workload.global_batch},
                                {"seq_len", run.workload.seq_len},
                                {"precision", Name(run.workload.precision)}}},
                              {"best", {{"plan", PlanJson(run.plan)}, {"plan_text", PlanText(run.plan)}}}};
  if (!run.cluster.local && !run.cluster.groups.empty()) json["cluster"] = ClusterJson(run.cluster);
  json["notes"] = EvidenceLines(run);
  ExportedFile exported;
  exported.text = json.dump(2) + "\n";
  return exported;
}

}  // namespace autocfg
