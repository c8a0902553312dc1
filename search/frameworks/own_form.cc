#include <string>

#include "nlohmann/json.hpp"
#include "search/frameworks/export_target.h"
#include "search/plan/plan_text.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"
#include "search/text/workload_json.h"

namespace autocfg {

ExportedFile WriteOwnForm(const ExportedRun& run) {
  nlohmann::ordered_json json{{"model", ModelJson(run.model)},
                              {"workload", WorkloadJson(run.workload)},
                              {"best", {{"plan", PlanJson(run.plan)}, {"plan_text", PlanText(run.plan)}}}};
  if (run.cluster.local) {
    json["cluster"] = {{"name", run.cluster.name}, {"local", true}};
  } else if (!run.cluster.groups.empty()) {
    json["cluster"] = ClusterJson(run.cluster);
  } else if (run.ranks_per_node > 0) {
    const NodeLayout layout = LayoutOf(run);
    json["layout"] = {{"nodes", layout.nodes}, {"ranks_per_node", layout.ranks_per_node}};
  }
  if (!run.evidence.engine.empty()) json["engine"] = run.evidence.engine;
  if (run.memory_margin) json["memory_margin"] = *run.memory_margin;
  json["notes"] = EvidenceLines(run);
  ExportedFile exported;
  exported.text = json.dump(2) + "\n";
  return exported;
}

}  // namespace autocfg
