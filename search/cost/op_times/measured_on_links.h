// Op times of a cluster of several machines like this one. Compute ops are measured on this machine.
// Communication is modelled from the links of the cluster's description, also between ranks that share a
// machine. Immutable and thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "search/cost/op_times/collective_model.h"
#include "search/cost/op_times/op_time_model.h"
#include "search/cost/op_times/op_times.h"
#include "search/plan/cluster_spec.h"

namespace autocfg {

class MeasuredOnLinks final : public OpTimeModel {
 public:
  // `compute`: measured with all ranks of one machine at work; its communication times are not used. Fails as
  // LinksOf.
  static absl::StatusOr<std::shared_ptr<const MeasuredOnLinks>> Create(OpTimes compute,
                                                                       const ClusterSpec& cluster);

  double Seconds(const OpDesc& op, const ParallelPlan& plan) const override;
  double HostOpSeconds() const override { return compute_.HostOpSeconds(); }

 private:
  MeasuredOnLinks(OpTimes compute, Links links, std::int64_t gpus_per_node)
      : compute_(std::move(compute)), links_(links), gpus_per_node_(gpus_per_node) {}

  OpTimes compute_;
  Links links_;
  std::int64_t gpus_per_node_;
};

}  // namespace autocfg
