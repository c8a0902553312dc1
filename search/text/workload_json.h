// JSON of a workload, as answers and files of ours have it. Pure, thread-safe.
#pragma once

#include "nlohmann/json_fwd.hpp"
#include "search/plan/workload.h"

namespace autocfg {

// Returns {"global_batch", "seq_len", "precision"}, and unless the optimizer is AdamW "optimizer", and with
// momentum "momentum".
nlohmann::ordered_json WorkloadJson(const Workload& workload);

}  // namespace autocfg
