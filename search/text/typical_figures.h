// What few people know of their own machines, and a prediction needs all the same. Pure, thread-safe.
#pragma once

#include <string>

#include "search/plan/cluster_spec.h"

namespace autocfg {

// Fills in what a described cluster leaves out of its device's efficiencies, what a GPU takes of its own
// memory, and the latencies of the links that it has, with those of the preset a100-80gb-sxm
// (search/data/devices, each with its source). The note says what was assumed and from where; empty where
// nothing was.
std::string AssumeTypicalFigures(ClusterSpec& cluster);

// The same for its links alone: where what computes is measured.
std::string AssumeTypicalLinkFigures(ClusterSpec& cluster);

}  // namespace autocfg
