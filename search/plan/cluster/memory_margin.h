// The memory margin: the share of a rank's memory that a plan leaves free, beyond what the engine reserves. A
// plan that fills a device to the last percent fails in practice: allocators fragment, and libraries and
// drivers take more than described. Searches and predictions apply it; the training engine does not. Pure
// functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "search/plan/cluster/cluster_spec.h"

namespace autocfg {

// The default of our own engine on described clusters.
inline constexpr double kDescribedMemoryMargin = 0.05;

// Returns 0 on `local`, whose capacity is 80% of the memory limit already; the error of its memory for an
// engine that says one (EngineProfile::memory_error); else kDescribedMemoryMargin.
double DefaultMemoryMargin(const ClusterSpec& cluster);

// Returns InvalidArgument without a subject, "memory_margin is ...", unless `margin` is a fraction from 0 to
// below 1.
absl::Status CheckMemoryMargin(double margin);

// Returns how many of `capacity_bytes` a plan may take: capacity x (1 - margin), rounded down. Requires a
// margin that CheckMemoryMargin accepts.
std::int64_t UsableBytes(std::int64_t capacity_bytes, double margin);

// Returns "5%".
std::string MarginText(double margin);

}  // namespace autocfg
