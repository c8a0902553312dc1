// Texts of engines' files for tests.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace autocfg::worker {

// An engine that is right; tests change parts of it.
inline nlohmann::ordered_json GoodEngine() {
  return nlohmann::ordered_json::parse(R"json({
    "name": "toy",
    "version": "1.0",
    "format": "autocfg",
    "command": ["/bin/sh", "-c", "exit 0", "{file}", "{ranks}", "{node_rank}"],
    "environment": {"PORT": "at {master_port}"},
    "log": {
      "step": {"pattern": "step (\\d+)"},
      "step_time": {"pattern": "time ([\\d.,]+) ms", "unit": "ms"},
      "loss": {"pattern": "loss (\\S+)"},
      "peak_memory": {"pattern": "peak ([\\d.,]+) MiB", "unit": "MiB"},
      "out_of_memory": {"pattern": "out of memory", "exit_statuses": [17]},
      "failure": {"pattern": "Error: (.*)"},
      "peer_lost": {"pattern": "peer is gone"}
    }
  })json");
}

}  // namespace autocfg::worker
