#include "trainer/parallel/execution.h"

#include <cstdint>
#include <vector>

namespace autocfg::trainer {

Groups MakeGroups(CommWorld& world, const RankShape& shape, const GroupStaging& staging) {
  const auto make = [&](CommGroup group, const Tensor& scratch) -> std::unique_ptr<Communicator> {
    const std::vector<std::int64_t> ranks = GroupRanks(shape, group);
    return ranks.empty() ? nullptr : world.CreateGroup(group, ranks, scratch);
  };
  Groups groups;
  groups.tensor = make(CommGroup::kTensor, staging.tensor);
  groups.kv_replica = make(CommGroup::kKvReplica, staging.kv_replica);
  groups.data = make(CommGroup::kData, staging.data);
  groups.shard = make(CommGroup::kShard, staging.shard);
  groups.replica = make(CommGroup::kReplica, staging.replica);
  groups.pipeline = make(CommGroup::kPipeline, Tensor{});
  groups.embedding = make(CommGroup::kEmbedding, staging.embedding);
  groups.world = make(CommGroup::kWorld, staging.world);
  return groups;
}

void SumNormGradients(const Execution& run, const MemoryLayout& layout) {
  run.AllReduce(run.groups.tensor, layout.summed_norm_gradients(), ReduceOp::kSum);
}

void SumTiedEmbedding(const Execution& run, const MemoryLayout& layout) {
  run.AllReduce(run.groups.embedding, layout.own_wte_gradient(), ReduceOp::kSum);
}

}  // namespace autocfg::trainer
