// What a rank does around its computes: messages, reductions and the optimizer (program.h: Lower says which
// and why). The only code that knows; Lower makes the program with it, LoopProgram what the timer reads.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/schedule/action.h"
#include "search/schedule/action_kinds.h"

namespace autocfg {

// An action without what it waits for.
struct LoweredAction {
  ActionKind kind = ActionKind::kForward;
  Lane lane = Lane::kCompute;
  std::int32_t stage = -1, microbatch = -1, peer = -1;
};

inline Action ActionFrom(const LoweredAction& a) {
  return {.kind = a.kind, .lane = a.lane, .stage = a.stage, .microbatch = a.microbatch, .peer = a.peer};
}

// A rank of the pipeline and its neighbours around the ring, as the program's ranks.
struct RingPlace {
  std::int64_t pipeline_rank = 0;
  std::int32_t previous = 0, next = 0;
};

// Lowers one rank, compute by compute. A Sink takes the actions:
//   Handle               names an action of the rank; a default one names none
//   Add(action, after)   appends an action, which waits for those in `after`; returns its handle
//   TakeSlot(forward)    returns the backward that last used the activation slot of a forward
//   FreeSlot(backward, handle)  the backward has left its slot
// Refers to the plan and the sink.
template <class Sink>
class RankLowering {
 public:
  using Handle = typename Sink::Handle;

  RankLowering(const ParallelPlan& plan, const RingPlace& place, bool tied_embeddings, Sink& sink)
      : plan_(plan), place_(place), tied_embeddings_(tied_embeddings), sink_(sink) {}

  // The actions before the first compute.
  void Begin() { sink_.Add(Make(ActionKind::kZeroGradients), {}); }

  // A forward or backward with its messages; `microbatch` goes into the actions.
  void Compute(ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
    if (kind == ActionKind::kForward) {
      Forward(stage, microbatch);
    } else {
      Backward(stage, microbatch);
    }
  }

  // The actions after the last compute.
  void Finish() {
    Handle before = last_backward_;
    const auto reduce = [&](ActionKind kind) { before = sink_.Add(Make(kind), {before}); };
    const bool has_embedding = place_.pipeline_rank == 0 || place_.pipeline_rank == plan_.pp - 1;
    if (plan_.dp > 1) reduce(ActionKind::kReduceGradients);
    if (tied_embeddings_ && plan_.pp > 1 && has_embedding) reduce(ActionKind::kSumTiedEmbedding);
    reduce(ActionKind::kReduceScalars);
    sink_.Add(Make(ActionKind::kOptimizer), {before});
  }

  // The last users of the buffers, those of the buffer that is used next first. With the order of the
  // computes to come, all that their actions depend on.
  std::array<Handle, 4> BufferUsers() const {
    return {output_user_[output_], output_user_[1 - output_], gradient_user_[gradient_],
            gradient_user_[1 - gradient_]};
  }

 private:
  static LoweredAction Make(ActionKind kind, std::int32_t stage = -1, std::int32_t microbatch = -1,
                            std::int32_t peer = -1) {
    return {kind, LaneOf(kind), stage, microbatch, peer};
  }

  void Forward(std::int32_t stage, std::int32_t microbatch) {
    const LoweredAction forward = Make(ActionKind::kForward, stage, microbatch);
    const Handle slot_user = sink_.TakeSlot(forward);
    Handle received{};
    if (!IsFirstStage(stage)) {
      received =
          sink_.Add(Make(ActionKind::kRecvActivation, stage, microbatch, place_.previous), {slot_user});
    }
    if (IsLastStage(plan_, stage)) {
      sink_.Add(forward, {received});
      return;
    }
    Handle& output_user = output_user_[output_];
    output_ = 1 - output_;
    const Handle done = sink_.Add(forward, {received, output_user});
    output_user = sink_.Add(Make(ActionKind::kSendActivation, stage, microbatch, place_.next), {done});
  }

  void Backward(std::int32_t stage, std::int32_t microbatch) {
    const LoweredAction backward = Make(ActionKind::kBackward, stage, microbatch);
    const bool first = IsFirstStage(stage);
    const bool last = IsLastStage(plan_, stage);
    Handle& gradient_user = gradient_user_[gradient_];
    gradient_ = 1 - gradient_;
    Handle received{};
    if (!last) {
      received = sink_.Add(Make(ActionKind::kRecvGradient, stage, microbatch, place_.next), {gradient_user});
    }
    // The last stage writes the buffer itself; elsewhere the receive has already waited for its last user.
    const Handle written_after = last && !first ? gradient_user : Handle{};
    last_backward_ = sink_.Add(backward, {received, written_after});
    gradient_user = last_backward_;
    if (!first) {
      gradient_user =
          sink_.Add(Make(ActionKind::kSendGradient, stage, microbatch, place_.previous), {last_backward_});
    }
    sink_.FreeSlot(backward, last_backward_);
  }

  const ParallelPlan& plan_;
  RingPlace place_;
  bool tied_embeddings_;
  Sink& sink_;
  std::array<Handle, 2> output_user_{}, gradient_user_{};  // of two buffers each
  std::size_t output_ = 0, gradient_ = 0;                  // the buffer that is used next
  Handle last_backward_{};
};

}  // namespace autocfg
