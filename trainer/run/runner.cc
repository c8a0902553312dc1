#include "trainer/run/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "trainer/model/scalars.h"
#include "trainer/optim/clip.h"
#include "trainer/parallel/data_parallel.h"

namespace autocfg {
namespace {

constexpr int kActivationChannel = 0;
constexpr int kGradientChannel = 1;
constexpr std::int64_t kNoTicket = -1;

}  // namespace

Runner::Runner(const RankShape& shape, const RankProgram& program, const MemoryLayout& layout,
               const PipelineStage& stage, const Execution& run, Device& device, TokenSource& data)
    : shape_(shape),
      program_(program),
      layout_(layout),
      stage_(stage),
      run_(run),
      device_(device),
      data_(data),
      mesh_(shape.plan),
      backward_order_(shape.microbatches, -1),
      slot_of_(shape.microbatches, -1),
      slot_taken_(layout.slots().size(), false) {
  std::int64_t j = 0;
  for (const Action& action : program) {
    if (action.kind == ActionKind::kBackward) backward_order_.at(action.microbatch) = j++;
  }
}

StepResult Runner::RunStep(std::int64_t step, const Optimizer& optimizer) {
  step_ = step;
  result_ = {};
  optimizer_ = &optimizer;
  tickets_.assign(program_.size(), kNoTicket);
  for (std::size_t i = 0; i < program_.size(); ++i) {
    WaitFor(program_[i]);
    Issue(program_[i], i);
  }
  run_.pending.WaitAll();
  run_.stream.Synchronize();
  return result_;
}

void Runner::WaitFor(const Action& action) {
  for (const std::int32_t earlier : action.after) {
    if (tickets_.at(earlier) != kNoTicket) run_.pending.Wait(tickets_[earlier]);
  }
}

void Runner::Issue(const Action& action, std::size_t index) {
  const auto communicator = [&]() -> Communicator& { return *run_.groups.pipeline; };
  switch (action.kind) {
    case ActionKind::kZeroGradients:
      run_.ops.Fill(layout_.all_gradients(), 0, run_.stream);
      run_.ops.Fill(layout_.workspace().scalars, 0, run_.stream);
      return;
    case ActionKind::kForward:
      Forward(action);
      return;
    case ActionKind::kBackward:
      Backward(action);
      return;
    case ActionKind::kRecvActivation: {
      const Tensor& x = layout_.slots()[TakeSlot(action.microbatch)].layers.front().x;
      Keep(index, communicator().Recv(x, PeerInPipeline(action), kActivationChannel, run_.stream));
      return;
    }
    case ActionKind::kSendActivation:
      Keep(index, communicator().Send(layout_.output(action.microbatch), PeerInPipeline(action),
                                      kActivationChannel, run_.stream));
      return;
    case ActionKind::kRecvGradient:
      Keep(index, communicator().Recv(layout_.grad(backward_order_.at(action.microbatch)),
                                      PeerInPipeline(action), kGradientChannel, run_.stream));
      return;
    case ActionKind::kSendGradient:
      Keep(index, communicator().Send(layout_.grad(backward_order_.at(action.microbatch)),
                                      PeerInPipeline(action), kGradientChannel, run_.stream));
      return;
    case ActionKind::kReduceGradients:
      ReduceGradients(run_, layout_.all_gradients());
      return;
    case ActionKind::kSumTiedEmbedding:
      SumTiedEmbedding(run_, layout_.parameter_tensors().front().grad);
      return;
    case ActionKind::kReduceScalars:
      ReduceScalars();
      return;
    case ActionKind::kOptimizer:
      (*optimizer_)(result_.grad_norm);
      return;
  }
}

void Runner::Forward(const Action& action) {
  const std::int64_t k = action.microbatch;
  if (shape_.first) TakeSlot(k);
  const ActivationSlot& slot = SlotOf(k);
  LoadTokens(k, slot);
  stage_.Forward(run_, slot, shape_.last ? Tensor{} : layout_.output(k));
}

void Runner::Backward(const Action& action) {
  const std::int64_t k = action.microbatch;
  stage_.Backward(run_, SlotOf(k), layout_.grad(backward_order_.at(k)));
  slot_taken_[slot_of_[k]] = false;
  slot_of_[k] = -1;
}

void Runner::ReduceScalars() {
  AddSquaredNorm(run_, shape_, layout_);
  run_.AllReduce(run_.groups.world, layout_.workspace().scalars, ReduceOp::kSum);
  double scalars[2] = {0, 0};
  device_.CopyToHost(scalars, layout_.workspace().scalars.data, sizeof(scalars), run_.stream);
  run_.stream.Synchronize();
  // Every rank of a tensor group has added the same loss.
  const double tokens =
      static_cast<double>(shape_.workload.global_batch) * static_cast<double>(shape_.seq_len);
  result_.loss = scalars[0] / static_cast<double>(mesh_.size(Axis::kTensor)) / tokens;
  result_.grad_norm = std::sqrt(scalars[1]);
}

void Runner::LoadTokens(std::int64_t microbatch, const ActivationSlot& slot) {
  if (!shape_.first && !shape_.last) return;
  const std::int64_t s = shape_.seq_len;
  const std::int64_t first = FirstSequence(step_, shape_.workload.global_batch, shape_.data,
                                           mesh_.size(Axis::kData), microbatch, shape_.micro_batch);
  sequence_.resize(s + 1);
  tokens_.resize(shape_.tokens);
  targets_.resize(shape_.tokens);
  for (std::int64_t i = 0; i < shape_.micro_batch; ++i) {
    data_.Read(first + i, sequence_);
    std::copy_n(sequence_.begin(), s, tokens_.begin() + i * s);
    std::copy_n(sequence_.begin() + 1, s, targets_.begin() + i * s);
  }
  if (shape_.first) device_.CopyFromHost(slot.tokens.data, tokens_.data(), slot.tokens.Bytes(), run_.stream);
  if (shape_.last) {
    device_.CopyFromHost(slot.head.targets.data, targets_.data(), slot.head.targets.Bytes(), run_.stream);
  }
}

int Runner::TakeSlot(std::int64_t microbatch) {
  const auto free = std::find(slot_taken_.begin(), slot_taken_.end(), false);
  if (free == slot_taken_.end()) {
    throw std::logic_error(
        fmt::format("no activation slot is free for microbatch {} of stage {}", microbatch, shape_.stage));
  }
  const int slot = static_cast<int>(free - slot_taken_.begin());
  slot_taken_[slot] = true;
  slot_of_.at(microbatch) = slot;
  max_slots_used_ =
      std::max(max_slots_used_, static_cast<int>(std::count(slot_taken_.begin(), slot_taken_.end(), true)));
  return slot;
}

const ActivationSlot& Runner::SlotOf(std::int64_t microbatch) const {
  const int slot = slot_of_.at(microbatch);
  if (slot < 0)
    throw std::logic_error(
        fmt::format("microbatch {} is not in flight on stage {}", microbatch, shape_.stage));
  return layout_.slots()[slot];
}

int Runner::PeerInPipeline(const Action& action) const {
  return static_cast<int>(mesh_.Coordinate(action.peer, Axis::kPipeline));
}

void Runner::Keep(std::size_t index, std::unique_ptr<Work> work) {
  tickets_[index] = run_.pending.Add(std::move(work));
}

}  // namespace autocfg
