#include "trainer/parallel/token_rows.h"

#include "trainer/comm/group.h"

namespace autocfg::trainer {

Tensor GatherRows(const Execution& run, const Tensor& rows, const Tensor& whole) {
  if (!run.splits_sequence) return rows;
  run.RunCollective([&] { return run.groups.tensor->AllGather(rows, whole, run.stream); });
  return whole;
}

const Tensor& SumsOf(const Execution& run, const Tensor& rows, const Tensor& whole) {
  return run.splits_sequence ? whole : rows;
}

void ReduceRows(const Execution& run, const Tensor& sums, const Tensor& rows) {
  if (run.splits_sequence) {
    run.RunCollective(
        [&] { return run.groups.tensor->ReduceScatter(sums, rows, ReduceOp::kSum, run.stream); });
  } else {
    run.AllReduce(run.groups.tensor, sums, ReduceOp::kSum);
  }
}

Tensor ReducedRows(const Execution& run, const Tensor& whole) {
  if (!run.splits_sequence) return whole;
  if (run.reduced.IsPresent()) return run.reduced;
  const std::int64_t ranks = run.groups.tensor->size();
  return PartOf(whole, run.groups.tensor->rank(), ranks).Reshape({whole.shape[0] / ranks, whole.shape[1]});
}

}  // namespace autocfg::trainer
