// The CPU and memory limits that control groups (version 1, version 2 or both) put on this process. Reads
// files only; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace autocfg {

struct CgroupLimits {
  std::optional<double> cpus;  // CPU time per wall time
  std::optional<std::int64_t> memory_bytes;
};

// The tightest limits of the process's group and of all groups above it, as far as they can be seen from here
// (a container often sees its own group as the root). `root` goes in front of /proc and /sys: "" outside of
// tests.
CgroupLimits ReadCgroupLimits(const std::string& root = "");

}  // namespace autocfg
