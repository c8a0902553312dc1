#include "trainer/parallel/unit_exchange.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "search/ops/memory_sizes.h"

namespace autocfg::trainer {
namespace {

constexpr std::int64_t kNone = -1;

bool ShareBuffer(const std::vector<UnitTensors>& units, std::size_t a, std::size_t b) {
  return a == b || (units[a].buffer == units[b].buffer && units[a].buffer != UnitTensors::Buffer::kOwn);
}

}  // namespace

UnitExchange::UnitExchange(const ParallelPlan& plan, const MemoryLayout& layout)
    : plan_(plan), layout_(layout), gathers_(layout.units().size(), kNone) {}

bool UnitExchange::KeepsPart(std::size_t unit, State state) const {
  return IsSharded(plan_, layout_.units()[unit].kind, state);
}

std::unique_ptr<Work> UnitExchange::IssueGather(const Execution& run, std::size_t unit) const {
  const UnitTensors& u = layout_.units()[unit];
  return run.groups.shard->AllGather(u.own_value, u.value, run.stream);
}

std::unique_ptr<Work> UnitExchange::IssueReduction(const Execution& run, std::size_t unit,
                                                   const Tensor& sum) const {
  const UnitTensors& u = layout_.units()[unit];
  if (run.groups.shard == nullptr) return run.groups.data->AllReduce(u.grad, ReduceOp::kSum, run.stream);
  return run.groups.shard->ReduceScatter(u.grad, sum, ReduceOp::kSum, run.stream);
}

void UnitExchange::BeginStep(const Execution& run) {
  if (!OverlapsParameters(plan_)) return;
  for (std::size_t unit = 0; unit < layout_.units().size(); ++unit) {
    if (!KeepsPart(unit, State::kParameters)) gathers_[unit] = run.pending.Add(IssueGather(run, unit));
  }
}

void UnitExchange::BeginAction(const Execution& run, const UnitsOfAction& units, bool last) {
  to_read_ = units.read;
  is_last_ = last;
  if (last) {
    const std::vector<std::size_t>& later = units.completed;
    for (std::size_t unit = 0; unit < layout_.units().size(); ++unit) {
      if (KeepsPart(unit, State::kGradients)) continue;  // reduced in each microbatch
      if (std::find(later.begin(), later.end(), unit) == later.end()) Reduce(run, unit, /*accumulate=*/true);
    }
  }
  if (ShardsParameters(plan_) && OverlapsParameters(plan_)) GatherNext(run);
}

void UnitExchange::EndAction(const Execution& run) {
  for (const PendingSum& sum : std::exchange(sums_, {})) Finish(run, sum);
  to_read_ = {};
  is_last_ = false;
}

void UnitExchange::GatherNext(const Execution& run) {
  if (to_read_.empty()) return;
  const std::size_t unit = to_read_.front();
  to_read_ = to_read_.subspan(1);
  gathers_[unit] = run.pending.Add(IssueGather(run, unit));
}

void UnitExchange::WaitForGather(const Execution& run, std::size_t unit) {
  const std::int64_t ticket = std::exchange(gathers_[unit], kNone);
  if (ticket != kNone) run.Observed(Section::kStates, [&] { run.pending.Wait(ticket); });
}

void UnitExchange::Read(const Execution& run, std::size_t unit) {
  if (!OverlapsParameters(plan_)) return GatherNow(run, unit);
  const bool is_gathered = gathers_[unit] != kNone;
  WaitForGather(run, unit);
  if (is_gathered && KeepsPart(unit, State::kParameters)) GatherNext(run);
}

void UnitExchange::GatherNow(const Execution& run, std::size_t unit) const {
  if (!KeepsPart(unit, State::kParameters)) return;
  run.RunCollective([&] { return IssueGather(run, unit); }, Section::kStates);
}

void UnitExchange::Write(const Execution& run, std::size_t unit) {
  std::erase_if(sums_, [&](const PendingSum& sum) {
    if (!ShareBuffer(layout_.units(), sum.unit, unit)) return false;
    Finish(run, sum);
    return true;
  });
}

// Returns where the reduced part of a sharded gradient goes: to its place, or within the buffer if it is
// added afterwards.
Tensor UnitExchange::SumOf(const Execution& run, std::size_t unit, bool accumulate) const {
  const UnitTensors& u = layout_.units()[unit];
  if (!KeepsPart(unit, State::kGradients) || !accumulate) return u.own_grad;
  const std::int64_t elements = u.own_grad.Elements();
  return u.grad.Slice(run.groups.shard->rank() * elements, elements);
}

void UnitExchange::Reduce(const Execution& run, std::size_t unit, bool accumulate) {
  const bool keeps_part = KeepsPart(unit, State::kGradients);
  if (!IsReducedInComputes(plan_, layout_.units()[unit].kind) || (!keeps_part && !is_last_)) return;
  const auto issue = [&] { return IssueReduction(run, unit, SumOf(run, unit, accumulate)); };
  if (!keeps_part) {
    reductions_.push_back(run.pending.Add(issue()));
  } else if (OverlapsGradients(plan_)) {
    sums_.push_back({unit, run.pending.Add(issue()), accumulate});
  } else {
    run.RunCollective(issue, Section::kStates);
    if (accumulate) AddSum(run, unit);
  }
}

void UnitExchange::Finish(const Execution& run, const PendingSum& sum) const {
  run.Observed(Section::kStates, [&] { run.pending.Wait(sum.ticket); });
  if (sum.accumulate) AddSum(run, sum.unit);
}

void UnitExchange::AddSum(const Execution& run, std::size_t unit) const {
  const Tensor& own = layout_.units()[unit].own_grad;
  const auto rows = [&](const Tensor& flat) {
    return flat.Reshape({own.Elements() / kUnitAlignment, kUnitAlignment});
  };
  run.ops.ResidualAdd(rows(own), rows(SumOf(run, unit, /*accumulate=*/true)), run.stream);
}

void UnitExchange::ReduceGradients(const Execution& run) {
  if (run.groups.data != nullptr || run.groups.shard != nullptr) ReduceOverData(run);
  if (run.groups.kv_replica == nullptr) return;
  for (std::size_t unit = 0; unit < layout_.units().size(); ++unit) {
    const Tensor shared = layout_.own_shared_gradient(unit);
    if (shared.IsPresent()) run.AllReduce(run.groups.kv_replica, shared, ReduceOp::kSum);
  }
}

void UnitExchange::ReduceOverData(const Execution& run) {
  if (!reductions_.empty()) {
    run.Observed(Section::kCollective, [&] {
      for (const std::int64_t ticket : reductions_) run.pending.Wait(ticket);
    });
    reductions_.clear();
  }
  if (run.groups.shard == nullptr && !OverlapsGradients(plan_)) {
    run.AllReduce(run.groups.data, layout_.all_gradients(), ReduceOp::kSum);
    return;
  }
  for (std::size_t unit = 0; unit < layout_.units().size(); ++unit) {
    const UnitTensors& u = layout_.units()[unit];
    if (!IsReducedInComputes(plan_, u.kind))
      run.RunCollective([&] { return IssueReduction(run, unit, u.own_grad); });
  }
  for (const UnitTensors& unit : layout_.units())
    run.AllReduce(run.groups.replica, unit.own_grad, ReduceOp::kSum);
}

void UnitExchange::GatherParameters(const Execution& run) const {
  for (std::size_t unit = 0; unit < layout_.units().size(); ++unit) {
    if (!KeepsPart(unit, State::kParameters)) run.RunCollective([&] { return IssueGather(run, unit); });
  }
}

}  // namespace autocfg::trainer
