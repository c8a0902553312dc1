// How long an op takes on a described cluster, from the figures of its device and links alone: for
// predictions without hardware. Immutable, to be shared between threads.
//
// Compute ops launch (op_overhead_s) and then take the longer of their arithmetic and their bytes, each at
// what of the peak the device's efficiency says is reached: matrix products by matmul_model.h, attention by
// attention_model.h, all others by their bytes. The epilogue of a product adds the time of the bytes that it
// moves beyond the product's, and no launch. Communication by collective_model.h. Seconds are finite and
// positive but for groups of one rank (0), and never less for a larger op.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "search/cost/collective_model.h"
#include "search/cost/matmul_model.h"
#include "search/cost/op_time_model.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/precision.h"

namespace autocfg {

class ClusterOpTimes final : public OpTimeModel {
 public:
  // InvalidArgument names the figure that is missing for this precision (an overhead and latencies of 0 are
  // given as that; matmul_k_half may be left out, for none), and fp64 on GPUs; Unimplemented for several node
  // groups.
  static absl::StatusOr<std::shared_ptr<const ClusterOpTimes>> Create(const ClusterSpec& cluster,
                                                                      const Precision& precision);

  double Seconds(const OpDesc& op, const ParallelPlan& plan) const override;
  double HostOpSeconds() const override { return host_op_s_; }

 private:
  ClusterOpTimes() = default;

  MatmulDevice device_;
  double attention_forward_flops_per_s_ = 0;
  double attention_backward_flops_per_s_ = 0;
  double overhead_s_ = 0;
  double host_op_s_ = 0;
  std::int64_t gpus_per_node_ = 1;
  Links links_;
};

}  // namespace autocfg
