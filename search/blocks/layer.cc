#include "search/blocks/layer.h"

#include <utility>

#include "search/blocks/attention.h"
#include "search/blocks/feed_forward.h"

namespace autocfg {

std::vector<OpDesc> LayerForwardOps(const RunView& run, const LayerKind& kind) {
  OpLister l(run);
  const AttentionBlock attention(l, kind);
  const FeedForwardBlock feed_forward(l);
  attention.InnerForward();
  attention.OutputForward();
  feed_forward.InnerForward();
  feed_forward.OutputForward();
  return std::move(l.ops);
}

std::vector<OpDesc> LayerRecomputeOps(const RunView& run, const LayerKind& kind, bool whole_mlp) {
  OpLister l(run);
  const AttentionBlock attention(l, kind);
  const FeedForwardBlock feed_forward(l);
  if (run.plan.recompute == Recompute::kFull) {
    attention.InnerForward();
    attention.OutputForward();
    feed_forward.InnerForward();
    feed_forward.RecomputeOutput();
  } else {
    attention.RecomputeNorm();
    attention.RecomputeScores();
    if (whole_mlp && RecomputesPart(run.plan, LayerPart::kMlp)) {
      feed_forward.InnerForward();
      feed_forward.OutputForward();
    } else {
      feed_forward.RecomputeNorm();
      feed_forward.RecomputeProjection();
    }
  }
  return std::move(l.ops);
}

std::vector<OpDesc> LayerBackwardOps(const RunView& run, bool accumulate, const LayerKind& kind,
                                     Gradients gradients) {
  OpLister l(run);
  const AttentionBlock attention(l, kind);
  const FeedForwardBlock feed_forward(l);
  // Side by side, both blocks pass the same gradient of the stream, which the norm before feed-forward
  // changes.
  const bool parallel = run.model.parallel_residual, first = parallel && OfInputs(gradients);
  // Where only inputs are asked for, norms write their gradients instead of adding them to that of the
  // stream, which the weights need. With norms on outputs, nothing later needs it.
  const bool adds = gradients == Gradients::kInputs && !NormsOutputs(run.model.norm_placement);
  feed_forward.OutputBackward(gradients, accumulate);
  if (first) attention.OutputBackward(gradients, accumulate, !parallel);
  feed_forward.InputBackward(gradients, accumulate);
  if (adds && !parallel) l.OwnRows(OpKind::kResidualAdd);
  if (!first) attention.OutputBackward(gradients, accumulate, !parallel);
  attention.InputBackward(gradients, accumulate);
  if (adds) l.OwnRows(OpKind::kResidualAdd);
  return std::move(l.ops);
}

BlockBytes LayerBytes(const RunView& run, const TensorBytes& bytes) {
  BlockBytes sum = AttentionBytes(run, bytes);
  sum += FeedForwardBytes(run, bytes);
  return sum;
}

}  // namespace autocfg
