#include "trainer/parallel/unit_exchange.h"

#include "search/ops/memory_sizes.h"

namespace autocfg::trainer {

void GatherUnit(const Execution& run, std::size_t unit) {
  if (run.sharded.parameters == nullptr || unit == 0) return;
  const UnitTensors& u = (*run.sharded.parameters)[unit];
  run.RunCollective([&] { return run.groups.shard->AllGather(u.own_value, u.value, run.stream); },
                    Section::kStates);
}

void ReduceUnit(const Execution& run, std::size_t unit, bool accumulate) {
  if (run.sharded.gradients == nullptr || unit == 0) return;
  const UnitTensors& u = (*run.sharded.gradients)[unit];
  const std::int64_t elements = u.own_grad.Elements();
  const Tensor part = accumulate ? u.grad.Slice(run.groups.shard->rank() * elements, elements) : u.own_grad;
  run.RunCollective([&] { return run.groups.shard->ReduceScatter(u.grad, part, ReduceOp::kSum, run.stream); },
                    Section::kStates);
  if (!accumulate) return;
  const auto rows = [&](const Tensor& flat) {
    return flat.Reshape({elements / kUnitAlignment, kUnitAlignment});
  };
  run.ops.ResidualAdd(rows(u.own_grad), rows(part), run.stream);
}

}  // namespace autocfg::trainer
