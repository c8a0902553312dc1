// Adds to the computes of a rank its messages, reductions and optimizer (program.h, at Lower, says which and
// why). Used by Lower, for programs, and by LowerLoops, for the timer.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
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
      : shape_(shape),
        place_(place),
        sink_(sink),
        gradients_(static_cast<std::size_t>(GradientBuffers(shape, place.pipeline_rank))) {}

  // Adds the actions before the first compute.
  void Begin() { sink_.Add(Make(ActionKind::kZeroScalars), {}); }

  // Adds an action that computes with a microbatch, with its messages. The actions get `microbatch`. Where
  // messages overlap, adds the receive alone, and then the compute of the call before.
  void Compute(ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
    const Prepared compute = Prepare(kind, stage, microbatch);
    if (!shape_.overlaps_messages) {
      Run(compute);
      return;
    }
    if (held_) Run(*held_);
    held_ = compute;
  }

  // Adds the actions that are left: a compute, and those after the last compute.
  void Finish() {
    if (held_) Run(*held_);
    held_.reset();
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

  // Returns the last users of the buffers, for each kind that of the buffer used next first, and the receive
  // of the compute that is not added yet. Later actions depend only on these, on the last call of Compute and
  // on the order of the remaining computes.
  std::array<Handle, 6> BufferUsers() const {
    const auto gradient_user = [this](std::size_t ahead) {
      return ahead < gradients_ ? gradient_user_[(gradient_ + ahead) % gradients_] : Handle{};
    };
    return {output_user_[output_], output_user_[1 - output_], gradient_user(0),
            gradient_user(1),      gradient_user(2),          held_ ? held_->received : Handle{}};
  }

 private:
  static LoweredAction Make(ActionKind kind, std::int32_t stage = -1, std::int32_t microbatch = -1,
                            std::int32_t peer = -1) {
    return {kind, LaneOf(kind), stage, microbatch, peer};
  }

  static bool IsFirst(std::int32_t stage) { return stage == 0; }
  bool IsLast(std::int32_t stage) const { return stage + 1 == shape_.stages(); }

  // A compute whose receive has been added.
  struct Prepared {
    ActionKind kind;
    std::int32_t stage, microbatch;
    Handle received;           // none: it receives nothing
    std::size_t gradient = 0;  // MakesInputGradient: its buffer
  };

  // Chooses the buffers that a message arrives in, and adds the receive.
  Prepared Prepare(ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
    Prepared compute{kind, stage, microbatch, {}};
    if (kind == ActionKind::kForward) {
      if (IsFirst(stage)) return compute;
      const Handle slot_user = sink_.TakeSlot(Make(kind, stage, microbatch));
      compute.received =
          sink_.Add(Make(ActionKind::kRecvActivation, stage, microbatch, place_.previous), {slot_user});
    } else if (MakesInputGradient(kind)) {
      compute.gradient = gradient_;
      gradient_ = (gradient_ + 1) % gradients_;
      if (IsLast(stage)) return compute;
      compute.received = sink_.Add(Make(ActionKind::kRecvGradient, stage, microbatch, place_.next),
                                   {gradient_user_[compute.gradient]});
    } else if (kind != ActionKind::kWeightGradient) {
      throw std::logic_error("RankLowering::Compute: computes with no microbatch");
    }
    return compute;
  }

  // Adds the compute, and what it sends.
  void Run(const Prepared& compute) {
    const LoweredAction action = Make(compute.kind, compute.stage, compute.microbatch);
    if (compute.kind == ActionKind::kForward) {
      Forward(compute, action);
    } else if (MakesInputGradient(compute.kind)) {
      Backward(compute, action);
    } else {
      last_gradient_ = sink_.Add(action, {});
    }
    if (FreesSlot(compute.kind)) sink_.FreeSlot(action, last_gradient_);
  }

  void Forward(const Prepared& compute, const LoweredAction& forward) {
    if (IsFirst(compute.stage)) sink_.TakeSlot(forward);
    if (IsLast(compute.stage)) {
      sink_.Add(forward, {compute.received});
      return;
    }
    Handle& output_user = output_user_[output_];
    output_ = 1 - output_;
    const Handle done = sink_.Add(forward, {compute.received, output_user});
    output_user =
        sink_.Add(Make(ActionKind::kSendActivation, compute.stage, compute.microbatch, place_.next), {done});
  }

  // A whole backward, or the part of it that makes what is sent.
  void Backward(const Prepared& compute, const LoweredAction& backward) {
    const bool first = IsFirst(compute.stage);
    const bool last = IsLast(compute.stage);
    Handle& gradient_user = gradient_user_[compute.gradient];
    // The last stage writes the buffer itself. On other stages the receive waits for its last user.
    const Handle written_after = last && !first ? gradient_user : Handle{};
    last_gradient_ = sink_.Add(backward, {compute.received, written_after});
    gradient_user = last_gradient_;
    if (!first) {
      gradient_user =
          sink_.Add(Make(ActionKind::kSendGradient, compute.stage, compute.microbatch, place_.previous),
                    {last_gradient_});
    }
  }

  PipelineShape shape_;
  RingPlace place_;
  Sink& sink_;
  std::array<Handle, 2> output_user_{};
  std::array<Handle, kMostGradientBuffers> gradient_user_{};
  std::size_t gradients_;                  // buffers of gradients
  std::size_t output_ = 0, gradient_ = 0;  // the buffer used next
  Handle last_gradient_{};                 // the last action that computed gradients
  std::optional<Prepared> held_;           // where messages overlap: the compute that is not added yet
};

}  // namespace autocfg
