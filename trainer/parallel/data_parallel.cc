#include "trainer/parallel/data_parallel.h"

namespace autocfg::trainer {

void ReduceGradients(const Execution& run, const Tensor& all_gradients) {
  run.AllReduce(run.groups.data, all_gradients, ReduceOp::kSum);
}

void SumTiedEmbedding(const Execution& run, const Tensor& wte_gradient) {
  run.AllReduce(run.groups.embedding, wte_gradient, ReduceOp::kSum);
}

}  // namespace autocfg::trainer
