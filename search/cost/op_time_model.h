// Where the cost model takes the time of an op from: measured on this machine (op_times.h), or modelled from
// the figures of a described cluster (cluster_op_times.h). Implementations are immutable once built and may
// be shared between threads.
#pragma once

#include "search/ops/op_desc.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

class OpTimeModel {
 public:
  virtual ~OpTimeModel() = default;

  // Seconds of one op as a rank of `plan` issues it, with all ranks at work. The plan says where the ranks of
  // the op's group stand (search/plan/rank_mesh.h: tensor fastest, then data, then pipeline), and so which
  // links its messages take. Infinite when nothing is known that could tell; never negative, never NaN. An op
  // of no group takes the same under every plan.
  virtual double Seconds(const OpDesc& op, const ParallelPlan& plan) const = 0;

  // Seconds in which the host issues one op of a rank, while the device runs those issued before: a forward
  // or a backward takes at least that for each of its ops. 0 where measured times hold it already.
  virtual double HostOpSeconds() const { return 0; }
};

}  // namespace autocfg
