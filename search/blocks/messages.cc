#include "search/blocks/messages.h"

#include "search/shapes/local_dims.h"

namespace autocfg {

std::vector<OpDesc> MessageOps(const RunView& run, OpKind kind) {
  const std::int64_t elements = LocalDimsOf(run).message;
  return {CommunicationOp(kind, run.workload.precision.compute, CommGroup::kPipeline,
                          SizeOf(run.plan, Axis::kPipeline),
                          ScattersMessages(run.plan) ? elements / run.plan.tp : elements)};
}

std::vector<OpDesc> ArrivalOps(const RunView& run) {
  if (!ScattersMessages(run.plan)) return {};
  return {CommunicationOp(OpKind::kAllGather, run.workload.precision.compute, CommGroup::kTensor, run.plan.tp,
                          LocalDimsOf(run).message)};
}

}  // namespace autocfg
