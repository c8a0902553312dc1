// CPU and memory limits that control groups (version 1, version 2 or both) set for this process. Only reads
// files; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace autocfg::worker {

struct CgroupLimits {
  std::optional<double> cpus;  // CPU time per wall time
  std::optional<std::int64_t> memory_bytes;
};

// Returns the tightest limits of the process's group and all its visible ancestors. A container often sees
// its own group as the root. `root` is prefixed to /proc and /sys; "" except in tests.
CgroupLimits ReadCgroupLimits(const std::string& root = "");

}  // namespace autocfg::worker
