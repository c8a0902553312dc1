#include <algorithm>
#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "search/plan/model_stages.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/program.h"
#include "search/schedule/rank_lowering.h"

namespace autocfg {
namespace {

// The list of a rank. Keeps the activation slots of its stages.
class ProgramSink {
 public:
  struct Handle {
    std::int32_t index = -1;  // in the list
  };

  explicit ProgramSink(const ParallelPlan& plan)
      : plan_(plan), slots_(static_cast<std::size_t>(plan.virtual_stages)) {}

  Handle Add(const LoweredAction& lowered, std::initializer_list<Handle> after) {
    Action action = ActionFrom(lowered);
    for (const Handle handle : after) {
      if (handle.index >= 0) action.after.push_back(handle.index);
    }
    std::sort(action.after.begin(), action.after.end());
    program_.push_back(std::move(action));
    return {static_cast<std::int32_t>(program_.size()) - 1};
  }

  Handle TakeSlot(const LoweredAction& forward) {
    Slot& slot = FindSlot(forward, kFree);
    slot.microbatch = forward.microbatch;
    return slot.last_user;
  }

  void FreeSlot(const LoweredAction& action, Handle handle) {
    FindSlot(action, action.microbatch) = {kFree, handle};
  }

  RankProgram Take() { return std::move(program_); }

 private:
  static constexpr std::int32_t kFree = -1;

  struct Slot {
    std::int32_t microbatch = kFree;  // that is in it
    Handle last_user;                 // that left it
  };

  // The stage's slot that holds the microbatch; for kFree the lowest free one, a new one if there is none.
  Slot& FindSlot(const LoweredAction& compute, std::int32_t microbatch) {
    std::vector<Slot>& slots = slots_[static_cast<std::size_t>(ChunkOf(plan_, compute.stage))];
    const auto slot =
        std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.microbatch == microbatch; });
    if (slot != slots.end()) return *slot;
    if (microbatch != kFree)
      throw std::logic_error(fmt::format("{} comes before its forward", ToString(ActionFrom(compute))));
    return slots.emplace_back();
  }

  const ParallelPlan& plan_;
  RankProgram program_;
  std::vector<std::vector<Slot>> slots_;  // by chunk
};

}  // namespace

Program Lower(const RunView& run) {
  const RankMesh mesh(run.plan);
  Program program{run.plan, MicrobatchCount(run.workload, run.plan), {}};
  const PipelineShape shape(run.model, run.plan, program.microbatches);
  std::vector<ComputeOrder> orders;
  orders.reserve(static_cast<std::size_t>(run.plan.pp));
  for (int pipeline_rank = 0; pipeline_rank < run.plan.pp; ++pipeline_rank) {
    orders.push_back(Unroll(MakeComputeLoops(shape, pipeline_rank)));
  }
  program.ranks.reserve(static_cast<std::size_t>(mesh.size()));
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    const std::int64_t pipeline_rank = mesh.Coordinate(rank, Axis::kPipeline);
    const std::vector<std::int64_t> pipeline = mesh.Group(rank, CommGroup::kPipeline);
    const auto peer = [&](std::int64_t steps) {
      return static_cast<std::int32_t>(
          pipeline[static_cast<std::size_t>((pipeline_rank + steps) % run.plan.pp)]);
    };
    ProgramSink sink(run.plan);
    RankLowering lowering(shape, {pipeline_rank, peer(run.plan.pp - 1), peer(1)}, sink);
    lowering.Begin();
    for (const Action& compute : orders[static_cast<std::size_t>(pipeline_rank)])
      lowering.Compute(compute.kind, compute.stage, compute.microbatch);
    lowering.Finish();
    program.ranks.push_back(sink.Take());
  }
  return program;
}

}  // namespace autocfg
