#include "search/text/workload_json.h"

#include "nlohmann/json.hpp"

namespace autocfg {

nlohmann::ordered_json WorkloadJson(const Workload& workload) {
  nlohmann::ordered_json json{{"global_batch", workload.global_batch},
                              {"seq_len", workload.seq_len},
                              {"precision", PrecisionText(workload.precision)}};
  if (workload.optimizer.kind != OptimizerKind::kAdamW) json["optimizer"] = Name(workload.optimizer.kind);
  if (workload.optimizer.momentum != 0) json["momentum"] = workload.optimizer.momentum;
  return json;
}

}  // namespace autocfg
