#include "trainer/parallel/execution.h"

#include <cstdint>
#include <span>
#include <vector>

namespace autocfg::trainer {

Groups MakeGroups(CommWorld& world, const RankShape& shape, const GroupStaging& staging) {
  const auto make = [&](CommGroup group, const Tensor& scratch) -> std::unique_ptr<Communicator> {
    const std::vector<std::int64_t> ranks = GroupRanks(shape, group);
    return ranks.empty() ? nullptr : world.CreateGroup(group, ranks, scratch);
  };
  Groups groups;
  groups.tensor = make(CommGroup::kTensor, staging.tensor);
  groups.data = make(CommGroup::kData, staging.data);
  groups.shard = make(CommGroup::kShard, staging.shard);
  groups.replica = make(CommGroup::kReplica, staging.replica);
  groups.pipeline = make(CommGroup::kPipeline, Tensor{});
  groups.embedding = make(CommGroup::kEmbedding, staging.embedding);
  groups.world = make(CommGroup::kWorld, staging.world);
  return groups;
}

ShardedUnits ShardedUnitsOf(const RankShape& shape, const MemoryLayout& layout) {
  ShardedUnits sharded;
  if (ShardsParameters(shape.plan)) sharded.parameters = &layout.units();
  if (ShardsGradients(shape.plan)) sharded.gradients = &layout.units();
  return sharded;
}

void SumNormGradients(const Execution& run, const MemoryLayout& layout) {
  run.AllReduce(run.groups.tensor, layout.norm_gradients(), ReduceOp::kSum);
}

void ReduceGradients(const Execution& run, const MemoryLayout& layout) {
  if (run.groups.shard == nullptr) {
    run.AllReduce(run.groups.data, layout.all_gradients(), ReduceOp::kSum);
    return;
  }
  const std::span units(layout.units());
  const std::span reduced = run.sharded.gradients == nullptr ? units : units.first(1);
  for (const UnitTensors& unit : reduced)
    run.RunCollective([&] {
      return run.groups.shard->ReduceScatter(unit.grad, unit.own_grad, ReduceOp::kSum, run.stream);
    });
  for (const UnitTensors& unit : units) run.AllReduce(run.groups.replica, unit.own_grad, ReduceOp::kSum);
}

void GatherParameters(const Execution& run, const MemoryLayout& layout) {
  const std::span units(layout.units());
  const std::span gathered = run.sharded.parameters == nullptr ? units : units.first(1);
  for (const UnitTensors& unit : gathered)
    run.RunCollective([&] { return run.groups.shard->AllGather(unit.own_value, unit.value, run.stream); });
}

void SumTiedEmbedding(const Execution& run, const MemoryLayout& layout) {
  run.AllReduce(run.groups.embedding, layout.own_wte_gradient(), ReduceOp::kSum);
}

}  // namespace autocfg::trainer
