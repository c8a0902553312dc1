// Exchanges units (trainer/layout/parameter_units.h) over the data axis: gathers parameters of which each
// rank has its part, and reduces gradients (docs/engine.md, "Units"). One rank, one thread.
//
// Sharded gradients or parameters (ZeRO stages 2 and 3, Rajbhandari et al. 2020; FSDP, Zhao et al. 2023) are
// exchanged in every microbatch, where they are used: all elements of a unit then lie in a buffer that units
// use in turn. What a rank keeps whole is exchanged once in a step. With overlap, collectives are issued as
// early as their data allows and waited for as late as possible; PendingWorks drives them meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "search/plan/parallel_plan.h"
#include "search/plan/placement.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// The units that an action uses, in order of use.
struct UnitsOfAction {
  std::vector<std::size_t> read;       // gathered for this action if parameters are sharded
  std::vector<std::size_t> completed;  // whose gradient of a microbatch the action completes
};

class UnitExchange {
 public:
  // `layout`: resolved. It must outlive the exchange.
  UnitExchange(const ParallelPlan& plan, const MemoryLayout& layout);

  // Begins a step. With param_overlap: issues the gathers of the parameters that the rank keeps whole, in the
  // order of the units.
  void BeginStep(const Execution& run);

  // Begin and end an action that computes with a microbatch. `last`: the rank's last one in the step
  // (IsLastCompute), which with grad_overlap reduces the gradients that the rank keeps whole: first those
  // that other actions completed.
  void BeginAction(const Execution& run, const UnitsOfAction& units, bool last);
  void EndAction(const Execution& run);

  // Makes the parameters of a unit complete, before an action reads them.
  void Read(const Execution& run, std::size_t unit);

  // Makes the buffer of a unit's gradient free, before an action writes it.
  void Write(const Execution& run, std::size_t unit);

  // Reduces the gradient of a unit, once a microbatch's is complete: if gradients are sharded, or in the last
  // action of a step. Of a sharded one the rank keeps its own part: it is set, or added to if `accumulate`.
  void Reduce(const Execution& run, std::size_t unit, bool accumulate);

  // Completes the sum of the gradients over the data axis. Losses are scaled by the global batch, so the sum
  // is the gradient. With sharded states, each rank gets the sums of its own part of each unit; the rest is
  // undefined. Gradients of key-value heads that ranks share are then summed over those ranks.
  void ReduceGradients(const Execution& run);

  // Sharded states: gathers the parameters that the rank keeps whole, of which each rank has updated its
  // part.
  void GatherParameters(const Execution& run) const;

  // Gathers a unit's parameters into its buffer now, if parameters are sharded.
  void GatherNow(const Execution& run, std::size_t unit) const;

 private:
  // The sum over the ranks that split the batch.
  void ReduceOverData(const Execution& run);
  struct PendingSum {
    std::size_t unit;
    std::int64_t ticket;
    bool accumulate;
  };

  bool KeepsPart(std::size_t unit, State state) const;
  Tensor SumOf(const Execution& run, std::size_t unit, bool accumulate) const;
  std::unique_ptr<Work> IssueGather(const Execution& run, std::size_t unit) const;
  std::unique_ptr<Work> IssueReduction(const Execution& run, std::size_t unit, const Tensor& sum) const;
  void GatherNext(const Execution& run);
  void WaitForGather(const Execution& run, std::size_t unit);
  void Finish(const Execution& run, const PendingSum& sum) const;
  void AddSum(const Execution& run, std::size_t unit) const;

  const ParallelPlan plan_;
  const MemoryLayout& layout_;
  std::vector<std::int64_t> gathers_;     // by unit: the ticket of the gather in flight
  std::span<const std::size_t> to_read_;  // of the action: units whose gather has not been issued
  bool is_last_ = false;                  // the action is the rank's last in the step
  std::vector<PendingSum> sums_;          // of sharded gradients, in flight or not added yet
  std::vector<std::int64_t> reductions_;  // of whole gradients, in flight
};

}  // namespace autocfg::trainer
