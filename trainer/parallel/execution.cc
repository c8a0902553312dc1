#include "trainer/parallel/execution.h"

#include "search/plan/rank_mesh.h"

namespace autocfg::trainer {

Groups MakeGroups(CommWorld& world, const RankShape& shape, const GroupStaging& staging) {
  const RankMesh mesh(shape.plan);
  const auto make = [&](CommGroup group, const Tensor& scratch) -> std::unique_ptr<Communicator> {
    const auto ranks = mesh.Group(shape.rank, group);
    return ranks.size() < 2 ? nullptr : world.CreateGroup(group, ranks, scratch);
  };
  Groups groups;
  groups.tensor = make(CommGroup::kTensor, staging.tensor);
  groups.data = make(CommGroup::kData, staging.data);
  groups.pipeline = make(CommGroup::kPipeline, Tensor{});
  if (shape.model.tied_embeddings) groups.embedding = make(CommGroup::kEmbedding, staging.embedding);
  groups.world = make(CommGroup::kWorld, staging.world);
  return groups;
}

void SumNormGradients(const Execution& run, const Tensor& norm_gradients) {
  run.AllReduce(run.groups.tensor, norm_gradients, ReduceOp::kSum);
}

void ReduceGradients(const Execution& run, const Tensor& all_gradients) {
  run.AllReduce(run.groups.data, all_gradients, ReduceOp::kSum);
}

void SumTiedEmbedding(const Execution& run, const Tensor& wte_gradient) {
  run.AllReduce(run.groups.embedding, wte_gradient, ReduceOp::kSum);
}

}  // namespace autocfg::trainer
