// The effective figures of a cluster's links. Plain values; pure functions, thread-safe.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search/plan/cluster/cluster_spec.h"

namespace autocfg {

// Effective figures of the links, not peak figures.
struct Links {
  double intra_bytes_per_s = 0;  // per rank and direction
  double inter_bytes_per_s = 0;
  double intra_latency_s = 0;
  double inter_latency_s = 0;
  double intra_message_bytes_per_s = 0;  // of messages between stages
  double inter_message_bytes_per_s = 0;
};

// Returns the effective figures of the cluster's links; 0 for a kind of link that it does not have.
// InvalidArgument names the first missing figure: bandwidth, latency, or the fraction of the bandwidth that
// is reached, within a node of several ranks or between several nodes (search/text/typical_figures.h supplies
// defaults). Unimplemented for several node groups.
absl::StatusOr<Links> LinksOf(const ClusterSpec& cluster);

// Returns the error about a figure that a cluster of one node group lacks, with the name of its device.
absl::Status MissingFigure(const ClusterSpec& cluster, std::string_view figure,
                           std::string_view what_to_do = "give it");

}  // namespace autocfg
