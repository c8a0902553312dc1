// Op times of a cluster of several machines like this one. Compute ops are measured on this machine, and so
// is the communication of groups that share a machine, in the sizes that it could run. All other
// communication is modelled from the links of the cluster's description. Immutable and thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "search/cost/op_times/collective_model.h"
#include "search/cost/op_times/op_time_model.h"
#include "search/cost/op_times/op_times.h"
#include "search/plan/cluster/cluster_spec.h"

namespace autocfg {

class MeasuredOnLinks final : public OpTimeModel {
 public:
  // `measured`: with all ranks of one machine at work. Fails as LinksOf.
  static absl::StatusOr<std::shared_ptr<const MeasuredOnLinks>> Create(OpTimes measured,
                                                                       const ClusterSpec& cluster);

  double Seconds(const OpDesc& op, const ParallelPlan& plan) const override;
  double HostOpSeconds() const override { return measured_.HostOpSeconds(); }

 private:
  MeasuredOnLinks(OpTimes measured, Links links, std::int64_t gpus_per_node)
      : measured_(std::move(measured)), links_(links), gpus_per_node_(gpus_per_node) {}

  OpTimes measured_;
  Links links_;
  std::int64_t gpus_per_node_;
};

}  // namespace autocfg
