// Models op times on a described cluster from the figures of its device and links, for predictions without
// hardware. Immutable and thread-safe.
//
// A compute op takes its launch (op_overhead_s) plus the longer of its arithmetic and its bytes, each at the
// fraction of the peak that the device's efficiency gives. Matrix products follow matmul_model.h, attention
// follows attention_model.h, all other ops follow their bytes. The epilogue of a product adds the time of its
// extra bytes, without a launch. Communication follows collective_model.h; over the groups of data
// parallelism, the exposed share of it counts.
//
// Seconds are finite, positive except for groups of one rank (0), and never less for a larger op.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "search/cost/op_times/collective_model.h"
#include "search/cost/op_times/compute_model.h"
#include "search/cost/op_times/op_time_model.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/states/precision.h"

namespace autocfg {

class ClusterOpTimes final : public OpTimeModel {
 public:
  // InvalidArgument names the figure that is missing for this precision, or rejects fp64 on GPUs. An overhead
  // or a latency of 0 counts as given; matmul_k_half may be left out. Unimplemented for several node groups.
  static absl::StatusOr<std::shared_ptr<const ClusterOpTimes>> Create(const ClusterSpec& cluster,
                                                                      const Precision& precision);

  double Seconds(const OpDesc& op, const ParallelPlan& plan) const override;
  // With products in a narrow format, that of the compute type.
  const OpTimeModel& OutputLayer() const override { return output_layer_ ? *output_layer_ : *this; }
  bool KnowsEveryOp() const override { return true; }
  double HostOpSeconds() const override { return host_op_s_; }

 private:
  ClusterOpTimes() = default;
  // The casts of a product's operands to the narrow format, as passes of their own.
  double CastSeconds(const OpDesc& product) const;

  MatmulDevice device_;
  ProductFormat products_ = ProductFormat::kCompute;
  bool keeps_operands_ = false;  // what is cast once serves all products
  FusedAttentionDevice attention_forward_, attention_backward_;
  double overhead_s_ = 0;
  double optimizer_bytes_per_s_ = 0;
  double data_exposed_ = 1;
  double host_op_s_ = 0;
  std::int64_t gpus_per_node_ = 1;
  Links links_;
  std::shared_ptr<const ClusterOpTimes> output_layer_;  // null: as all others
};

}  // namespace autocfg
