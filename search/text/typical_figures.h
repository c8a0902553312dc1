// Defaults for device parameters that users rarely know but that predictions need. Pure, thread-safe.
#pragma once

#include <string>

#include "search/plan/cluster/cluster_spec.h"

namespace autocfg {

// Fills in a described cluster's missing device efficiencies, a GPU's own memory overhead, what hidden
// collectives take from its computes, and the latencies of its links, from the preset a100-80gb-sxm
// (search/data/devices, each with its source). Returns a note that says what was assumed and from where;
// empty if nothing was.
std::string AssumeTypicalFigures(ClusterSpec& cluster);

// As AssumeTypicalFigures, but only for the links. Used if the compute devices are measured.
std::string AssumeTypicalLinkFigures(ClusterSpec& cluster);

}  // namespace autocfg
