#include "trainer/parallel/messages.h"

#include "trainer/comm/group.h"

namespace autocfg::trainer {
namespace {

// The buffer with its padding, flat.
Tensor Whole(const RankShape& shape, const Tensor& buffer) { return buffer.Reshape({shape.message}); }

}  // namespace

Tensor OwnPartOfMessage(const RankShape& shape, const Tensor& buffer) {
  if (!ScattersMessages(shape.plan)) return buffer;
  return PartOf(Whole(shape, buffer), shape.tensor, shape.plan.tp);
}

void GatherMessage(const Execution& run, const RankShape& shape, const Tensor& buffer) {
  if (!ScattersMessages(shape.plan)) return;
  run.RunCollective([&] {
    return run.groups.tensor->AllGather(OwnPartOfMessage(shape, buffer), Whole(shape, buffer), run.stream);
  });
}

}  // namespace autocfg::trainer
