#include "search/cost/op_sum.h"

#include <cstddef>
#include <utility>

namespace autocfg {
namespace {

// Whether the op sums a product over the tensor group, given the op before it.
bool ReducesProduct(const OpDesc& before, const OpDesc& op) {
  return before.kind == OpKind::kMatmul && op.group == CommGroup::kTensor &&
         (op.kind == OpKind::kAllReduceSum || op.kind == OpKind::kReduceScatter);
}

}  // namespace

OpSum SumOps(const ParallelPlan& plan, const std::vector<OpDesc>& ops, const SecondsOfOp& seconds) {
  OpSum sum;
  const bool overlaps = TensorChunks(plan) > 1;
  ChunkedProduct chunked;
  double product_s = 0;  // of products since the last op of another kind
  const auto join = [&] {
    if (!chunked.reductions.empty()) sum.chunked.push_back(std::exchange(chunked, {}));
    product_s = 0;
  };
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const OpDesc& op = ops[i];
    if (overlaps && i > 0 && ReducesProduct(ops[i - 1], op)) {
      chunked.products_s.push_back(std::exchange(product_s, 0));
      chunked.reductions.push_back(op);
      continue;
    }
    // A chunked product is never the last op of a layer, and another kind of op follows it.
    if (op.kind != OpKind::kMatmul) join();
    if (op.group != CommGroup::kNone) {
      sum.messages.push_back(op);
      continue;
    }
    ++sum.ops;
    const double op_s = seconds(op);
    sum.compute_s += op_s;
    if (op.kind == OpKind::kMatmul) product_s += op_s;
  }
  join();
  return sum;
}

OverlapTime TimeOfChunks(const ChunkedProduct& chunked, const SecondsOfOp& seconds, double contention) {
  Lanes lanes(contention);
  for (std::size_t i = 0; i < chunked.reductions.size(); ++i) {
    lanes.Compute(chunked.products_s[i]);
    lanes.Issue(seconds(chunked.reductions[i]));
  }
  lanes.WaitForAll();
  return lanes.Added();
}

}  // namespace autocfg
