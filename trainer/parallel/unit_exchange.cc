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
    : layout_(layout),
      shards_gradients_(ShardsGradients(plan)),
      shards_parameters_(ShardsParameters(plan)),
      overlaps_gradients_(OverlapsGradients(plan)),
      overlaps_parameters_(OverlapsParameters(plan)),
      gathers_(layout.units().size(), kNone) {}

std::span<const UnitTensors> UnitExchange::Kept() const {
  const std::span units(layout_.units());
  return shards_parameters_ ? units.first(1) : units;
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
  if (!overlaps_parameters_) return;
  for (std::size_t unit = 0; unit < Kept().size(); ++unit)
    gathers_[unit] = run.pending.Add(IssueGather(run, unit));
}

void UnitExchange::BeginAction(const Execution& run, const UnitsOfAction& units, bool last) {
  to_read_ = units.read;
  reduces_whole_ = last && overlaps_gradients_ && !shards_gradients_;
  if (reduces_whole_) {
    const std::vector<std::size_t>& later = units.completed;
    for (std::size_t unit = 1; unit < layout_.units().size(); ++unit) {
      if (std::find(later.begin(), later.end(), unit) == later.end()) Reduce(run, unit, /*accumulate=*/true);
    }
  }
  if (shards_parameters_ && overlaps_parameters_) GatherNext(run);
}

void UnitExchange::EndAction(const Execution& run) {
  for (const PendingSum& sum : std::exchange(sums_, {})) Finish(run, sum);
  to_read_ = {};
  reduces_whole_ = false;
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
  const bool streamed = shards_parameters_ && IsStreamed(unit);
  if (!overlaps_parameters_) {
    if (streamed) GatherNow(run, unit);
    return;
  }
  const bool gathered_for_action = gathers_[unit] != kNone;
  WaitForGather(run, unit);
  if (streamed && gathered_for_action) GatherNext(run);
}

void UnitExchange::GatherNow(const Execution& run, std::size_t unit) const {
  if (!shards_parameters_ || !IsStreamed(unit)) return;
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
  if (!shards_gradients_ || !accumulate) return u.own_grad;
  const std::int64_t elements = u.own_grad.Elements();
  return u.grad.Slice(run.groups.shard->rank() * elements, elements);
}

void UnitExchange::Reduce(const Execution& run, std::size_t unit, bool accumulate) {
  if (!IsStreamed(unit) || (!shards_gradients_ && !reduces_whole_)) return;
  const auto issue = [&] { return IssueReduction(run, unit, SumOf(run, unit, accumulate)); };
  if (reduces_whole_) {
    reductions_.push_back(run.pending.Add(issue()));
  } else if (overlaps_gradients_) {
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
  const std::size_t count = layout_.units().size();
  if (run.groups.shard == nullptr && !overlaps_gradients_) {
    run.AllReduce(run.groups.data, layout_.all_gradients(), ReduceOp::kSum);
    return;
  }
  const bool all = !shards_gradients_ && !overlaps_gradients_;
  for (std::size_t unit = 0; unit < (all ? count : 1); ++unit)
    run.RunCollective([&] { return IssueReduction(run, unit, layout_.units()[unit].own_grad); });
  for (const UnitTensors& unit : layout_.units())
    run.AllReduce(run.groups.replica, unit.own_grad, ReduceOp::kSum);
}

void UnitExchange::GatherParameters(const Execution& run) const {
  for (std::size_t unit = 0; unit < Kept().size(); ++unit)
    run.RunCollective([&] { return IssueGather(run, unit); });
}

}  // namespace autocfg::trainer
