// Op times of a cluster that is several machines like this one: what computes, as measured on this machine;
// what communicates, from the links that describe the cluster, whether the ranks share a machine or not.
// Immutable, to be shared between threads.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "search/cost/collective_model.h"
#include "search/cost/op_time_model.h"
#include "search/cost/op_times.h"
#include "search/plan/cluster_spec.h"

namespace autocfg {

// InvalidArgument names the first link figure that is missing: bandwidth, latency, and the share of the
// bandwidth that is reached, within a node of several ranks and between several nodes (search/text/
// typical_figures.h fills in what few people know); Unimplemented for several node groups.
absl::Status CheckLinks(const ClusterSpec& cluster);

class MeasuredOnLinks final : public OpTimeModel {
 public:
  // `compute`: measured with all ranks of one machine at work; communication in it is not used. Fails as
  // CheckLinks.
  static absl::StatusOr<std::shared_ptr<const MeasuredOnLinks>> Create(OpTimes compute,
                                                                       const ClusterSpec& cluster);

  double Seconds(const OpDesc& op, const ParallelPlan& plan) const override;

 private:
  MeasuredOnLinks(OpTimes compute, Links links, std::int64_t gpus_per_node)
      : compute_(std::move(compute)), links_(links), gpus_per_node_(gpus_per_node) {}

  OpTimes compute_;
  Links links_;
  std::int64_t gpus_per_node_;
};

}  // namespace autocfg
