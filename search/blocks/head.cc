#include "search/blocks/head.h"

#include <utility>

#include "search/blocks/op_lister.h"

namespace autocfg {
namespace {

void Logits(OpLister& l, OpKind kind) {
  l.Rows(kind, l.dims.vocab);
  l.ops.back().softcap = l.model().output_softcap != 0;
}

}  // namespace

std::vector<OpDesc> HeadForwardOps(const RunView& run) {
  OpLister l(run);
  const LocalDims& s = l.dims;
  const DType statistics = l.types().statistics;
  l.NormForward();
  if (run.model.logit_scale != 1) l.OwnRows(OpKind::kScale);
  l.GatherHidden();
  l.Matmul(s.tokens, s.vocab, s.hidden, false, true);
  if (run.plan.tp == 1) {
    Logits(l, OpKind::kCrossEntropy);
    return std::move(l.ops);
  }
  Logits(l, OpKind::kCrossEntropyForward);
  l.TensorReduce(OpKind::kAllReduceMax, statistics, s.tokens);
  l.Add(OpKind::kCrossEntropyRescale, statistics, {s.tokens});
  l.TensorReduce(OpKind::kAllReduceSum, statistics, 2 * s.tokens);
  l.Add(OpKind::kCrossEntropyLoss, statistics, {s.tokens});
  return std::move(l.ops);
}

std::vector<OpDesc> HeadBackwardOps(const RunView& run, bool accumulate) {
  OpLister l(run);
  const LocalDims& s = l.dims;
  if (run.plan.tp > 1) Logits(l, OpKind::kCrossEntropyBackward);
  l.GatherHidden();
  l.WeightGradient(s.vocab, s.hidden, accumulate);
  l.ReducedProduct(s.vocab, false);
  if (run.model.logit_scale != 1) l.OwnRows(OpKind::kScale);
  l.NormBackward(accumulate);
  return std::move(l.ops);
}

std::int64_t HeadBytes(const ParallelPlan& plan, const TensorBytes& bytes) {
  const LocalDims& s = bytes.dims;
  std::int64_t head =
      2 * bytes.Hidden() + bytes.Norm() + bytes.Rows(s.vocab) + AlignedBytes(s.tokens * SizeOf(DType::kI32));
  if (SplitsLayers(plan)) head += bytes.Statistics(s.tokens) + bytes.Statistics(2 * s.tokens);
  return head;
}

}  // namespace autocfg
