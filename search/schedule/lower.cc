#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "search/plan/legality.h"
#include "search/plan/model_stages.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

constexpr std::int32_t kNothing = -1;

// Writes the program of one rank.
class RankLowering {
 public:
  RankLowering(const ParallelPlan& plan, const RankMesh& mesh, std::int64_t rank, bool tied_embeddings)
      : plan_(plan),
        pipeline_rank_(mesh.Coordinate(rank, Axis::kPipeline)),
        tied_embeddings_(tied_embeddings) {
    const std::vector<std::int64_t> pipeline = mesh.Group(rank, CommGroup::kPipeline);
    const auto peer = [&](std::int64_t steps) {
      return static_cast<std::int32_t>(
          pipeline[static_cast<std::size_t>((pipeline_rank_ + steps) % plan.pp)]);
    };
    next_ = peer(1);
    previous_ = peer(plan.pp - 1);
    slots_.resize(static_cast<std::size_t>(plan.virtual_stages));
  }

  RankProgram Run(const ComputeOrder& order) {
    Add({.kind = ActionKind::kZeroGradients}, {});
    for (const Action& action : order) {
      if (action.kind == ActionKind::kForward) {
        Forward(action);
      } else {
        Backward(action);
      }
    }
    Finish();
    return std::move(program_);
  }

 private:
  // An activation slot: who is in it, and the backward that last left it.
  struct Slot {
    std::int32_t microbatch = kNothing;
    std::int32_t last_backward = kNothing;
  };

  std::int32_t Add(Action action, std::initializer_list<std::int32_t> after) {
    action.after.clear();
    for (const std::int32_t index : after) {
      if (index != kNothing) action.after.push_back(index);
    }
    std::sort(action.after.begin(), action.after.end());
    program_.push_back(std::move(action));
    return static_cast<std::int32_t>(program_.size()) - 1;
  }

  // A send or receive of the microbatch and stage of `compute`.
  std::int32_t AddMessage(const Action& compute, ActionKind kind, Lane lane, std::int32_t peer,
                          std::int32_t after) {
    return Add(
        {.kind = kind, .lane = lane, .stage = compute.stage, .microbatch = compute.microbatch, .peer = peer},
        {after});
  }

  // The stage's slot that holds the microbatch; for kNothing the lowest free one, a new one if there is none.
  Slot& FindSlot(const Action& compute, std::int32_t microbatch) {
    std::vector<Slot>& slots = slots_[static_cast<std::size_t>(ChunkOf(plan_, compute.stage))];
    const auto slot =
        std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.microbatch == microbatch; });
    if (slot != slots.end()) return *slot;
    if (microbatch != kNothing)
      throw std::logic_error(fmt::format("{} comes before its forward", ToString(compute)));
    return slots.emplace_back();
  }

  void Forward(const Action& forward) {
    Slot& slot = FindSlot(forward, kNothing);
    slot.microbatch = forward.microbatch;
    std::int32_t received = kNothing;
    if (!IsFirstStage(forward.stage)) {
      received = AddMessage(forward, ActionKind::kRecvActivation, Lane::kPipelineRecv, previous_,
                            slot.last_backward);
    }
    if (IsLastStage(plan_, forward.stage)) {
      Add(forward, {received});
      return;
    }
    std::int32_t& output_user = output_user_[static_cast<std::size_t>(outputs_++ % 2)];
    const std::int32_t done = Add(forward, {received, output_user});
    output_user = AddMessage(forward, ActionKind::kSendActivation, Lane::kPipelineSend, next_, done);
  }

  void Backward(const Action& backward) {
    const bool first = IsFirstStage(backward.stage);
    const bool last = IsLastStage(plan_, backward.stage);
    std::int32_t& gradient_user = gradient_user_[static_cast<std::size_t>(backwards_++ % 2)];
    std::int32_t received = kNothing;
    if (!last)
      received = AddMessage(backward, ActionKind::kRecvGradient, Lane::kPipelineRecv, next_, gradient_user);
    // The last stage writes the buffer itself; elsewhere the receive has already waited for its last user.
    const std::int32_t written_after = last && !first ? gradient_user : kNothing;
    last_backward_ = Add(backward, {received, written_after});
    gradient_user = last_backward_;
    if (!first)
      gradient_user =
          AddMessage(backward, ActionKind::kSendGradient, Lane::kPipelineSend, previous_, last_backward_);
    FindSlot(backward, backward.microbatch) = {kNothing, last_backward_};
  }

  void Finish() {
    std::int32_t before = last_backward_;
    const auto reduce = [&](ActionKind kind) {
      before = Add({.kind = kind, .lane = Lane::kReduce}, {before});
    };
    const bool has_embedding = pipeline_rank_ == 0 || pipeline_rank_ == plan_.pp - 1;
    if (plan_.dp > 1) reduce(ActionKind::kReduceGradients);
    if (tied_embeddings_ && plan_.pp > 1 && has_embedding) reduce(ActionKind::kSumTiedEmbedding);
    reduce(ActionKind::kReduceScalars);
    Add({.kind = ActionKind::kOptimizer}, {before});
  }

  const ParallelPlan& plan_;
  std::int64_t pipeline_rank_;
  bool tied_embeddings_;
  std::int32_t previous_ = kNothing, next_ = kNothing;  // ranks, around the ring
  RankProgram program_;
  std::vector<std::vector<Slot>> slots_;  // by chunk
  std::array<std::int32_t, 2> output_user_{kNothing, kNothing};
  std::array<std::int32_t, 2> gradient_user_{kNothing, kNothing};
  std::int32_t last_backward_ = kNothing;
  int outputs_ = 0;
  int backwards_ = 0;
};

}  // namespace

Program Lower(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  const RankMesh mesh(plan);
  Program program{plan, MicrobatchCount(workload, plan), {}};
  std::vector<ComputeOrder> orders;
  orders.reserve(static_cast<std::size_t>(plan.pp));
  for (int pipeline_rank = 0; pipeline_rank < plan.pp; ++pipeline_rank) {
    orders.push_back(MakeComputeOrder(plan, pipeline_rank, static_cast<int>(program.microbatches)));
  }
  program.ranks.reserve(static_cast<std::size_t>(mesh.size()));
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    const auto pipeline_rank = static_cast<std::size_t>(mesh.Coordinate(rank, Axis::kPipeline));
    program.ranks.push_back(RankLowering(plan, mesh, rank, model.tied_embeddings).Run(orders[pipeline_rank]));
  }
  return program;
}

}  // namespace autocfg
