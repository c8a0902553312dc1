// Adds to the computes of a rank its messages, reductions and optimizer (program.h, at Lower, says which and
// why). Used by Lower, for programs, and by LowerLoops, for the timer.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

#include "search/schedule/action.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/compute_order.h"

namespace autocfg {

// An action without `after`.
struct LoweredAction {
  ActionKind kind = ActionKind::kForward;
  Lane lane = Lane::kCompute;
  std::int32_t stage = -1, microbatch = -1, peer = -1;
};

inline Action ActionFrom(const LoweredAction& a) {
  return {.kind = a.kind, .lane = a.lane, .stage = a.stage, .microbatch = a.microbatch, .peer = a.peer};
}

// A rank of the pipeline, and its neighbours around the ring as ranks of the program.
struct RingPlace {
  std::int64_t pipeline_rank = 0;
  std::int32_t previous = 0, next = 0;
};

// Lowers one rank, compute by compute. A Sink receives the actions. It has these members:
//
// - Handle: identifies an action of the rank; a default one identifies none;
// - Add(action, after): appends an action that waits for those in `after`; returns its handle;
// - TakeSlot(forward): returns the action that last used the activation slot of a forward;
// - FreeSlot(action, handle): frees the slot of a backward, or of a weight gradient.
//
// Refers to the sink.
template <class Sink>
class RankLowering {
 public:
  using Handle = typename Sink::Handle;

  RankLowering(const PipelineShape& shape, const RingPlace& place, Sink& sink)
      : shape_(shape), place_(place), sink_(sink) {}

  // Adds the actions before the first compute.
  void Begin() { sink_.Add(Make(ActionKind::kZeroScalars), {}); }

  // Adds an action that computes with a microbatch, with its messages. The actions get `microbatch`.
  void Compute(ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
    if (kind == ActionKind::kForward) {
      Forward(stage, microbatch);
    } else if (MakesInputGradient(kind)) {
      Backward(kind, stage, microbatch);
    } else if (kind == ActionKind::kWeightGradient) {
      last_gradient_ = sink_.Add(Make(kind, stage, microbatch), {});
    } else {
      throw std::logic_error("RankLowering::Compute: computes with no microbatch");
    }
    if (FreesSlot(kind)) sink_.FreeSlot(Make(kind, stage, microbatch), last_gradient_);
  }

  // Adds the actions after the last compute.
  void Finish() {
    Handle before = last_gradient_;
    const auto reduce = [&](ActionKind kind) { before = sink_.Add(Make(kind), {before}); };
    const bool has_embedding = place_.pipeline_rank == 0 || place_.pipeline_rank == shape_.ranks - 1;
    if (shape_.sums_norm_gradients) reduce(ActionKind::kSumNormGradients);
    if (shape_.reduces_gradients) reduce(ActionKind::kReduceGradients);
    if (shape_.tied_embeddings && shape_.ranks > 1 && has_embedding) reduce(ActionKind::kSumTiedEmbedding);
    reduce(ActionKind::kReduceScalars);
    before = sink_.Add(Make(ActionKind::kOptimizer), {before});
    if (shape_.gathers_parameters) reduce(ActionKind::kGatherParameters);
  }

  // Returns the last users of the buffers, for each kind that of the buffer used next first. Later actions
  // depend only on these and on the order of the remaining computes.
  std::array<Handle, 4> BufferUsers() const {
    return {output_user_[output_], output_user_[1 - output_], gradient_user_[gradient_],
            gradient_user_[1 - gradient_]};
  }

 private:
  static LoweredAction Make(ActionKind kind, std::int32_t stage = -1, std::int32_t microbatch = -1,
                            std::int32_t peer = -1) {
    return {kind, LaneOf(kind), stage, microbatch, peer};
  }

  static bool IsFirst(std::int32_t stage) { return stage == 0; }
  bool IsLast(std::int32_t stage) const { return stage + 1 == shape_.stages(); }

  void Forward(std::int32_t stage, std::int32_t microbatch) {
    const LoweredAction forward = Make(ActionKind::kForward, stage, microbatch);
    const Handle slot_user = sink_.TakeSlot(forward);
    Handle received{};
    if (!IsFirst(stage)) {
      received =
          sink_.Add(Make(ActionKind::kRecvActivation, stage, microbatch, place_.previous), {slot_user});
    }
    if (IsLast(stage)) {
      sink_.Add(forward, {received});
      return;
    }
    Handle& output_user = output_user_[output_];
    output_ = 1 - output_;
    const Handle done = sink_.Add(forward, {received, output_user});
    output_user = sink_.Add(Make(ActionKind::kSendActivation, stage, microbatch, place_.next), {done});
  }

  // A whole backward, or the part of it that makes what is sent.
  void Backward(ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
    const LoweredAction backward = Make(kind, stage, microbatch);
    const bool first = IsFirst(stage);
    const bool last = IsLast(stage);
    Handle& gradient_user = gradient_user_[gradient_];
    gradient_ = 1 - gradient_;
    Handle received{};
    if (!last) {
      received = sink_.Add(Make(ActionKind::kRecvGradient, stage, microbatch, place_.next), {gradient_user});
    }
    // The last stage writes the buffer itself. On other stages the receive waits for its last user.
    const Handle written_after = last && !first ? gradient_user : Handle{};
    last_gradient_ = sink_.Add(backward, {received, written_after});
    gradient_user = last_gradient_;
    if (!first) {
      gradient_user =
          sink_.Add(Make(ActionKind::kSendGradient, stage, microbatch, place_.previous), {last_gradient_});
    }
  }

  PipelineShape shape_;
  RingPlace place_;
  Sink& sink_;
  std::array<Handle, 2> output_user_{}, gradient_user_{};  // of two buffers each
  std::size_t output_ = 0, gradient_ = 0;                  // the buffer used next
  Handle last_gradient_{};                                 // the last action that computed gradients
};

}  // namespace autocfg
