// Interface for the op times of the cost model: measured on this machine (op_times.h), or modelled from a
// described cluster (cluster_op_times.h). Implementations are immutable once built, and thread-safe.
#pragma once

#include "search/ops/op_desc.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

class OpTimeModel {
 public:
  virtual ~OpTimeModel() = default;

  // Returns the seconds of one op as a rank of `plan` issues it, with all ranks at work. The plan determines
  // the placement of the op's group (search/plan/rank_mesh.h: tensor fastest, then data, then pipeline), and
  // thereby its links. Infinite if no estimate is possible; never negative, never NaN. The time of an op
  // without a group does not depend on the plan, that of one over the tensor group on tp and the number of
  // ranks alone.
  virtual double Seconds(const OpDesc& op, const ParallelPlan& plan) const = 0;

  // Returns the op times of the output layer, whose products may have another type than those of layers.
  virtual const OpTimeModel& OutputLayer() const { return *this; }

  // Returns whether Seconds is finite and positive for every op with elements and, of a collective, several
  // ranks. A search may then leave times of plans out that its answers do not need.
  virtual bool KnowsEveryOp() const { return false; }

  // Returns the seconds in which the host issues one op of a rank while the device runs earlier ones. A
  // forward or a backward takes at least that long for each of its computes. 0 if measured times already
  // include it.
  virtual double HostOpSeconds() const { return 0; }
};

}  // namespace autocfg
