#include "trainer/run/runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "search/schedule/action_kinds.h"
#include "search/schedule/compute_order.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/optim/optimizer.h"
#include "trainer/parallel/execution.h"
#include "trainer/parallel/messages.h"
#include "trainer/parallel/unit_exchange.h"

namespace autocfg::trainer {
namespace {

constexpr int kActivationChannel = 0;
constexpr int kGradientChannel = 1;
constexpr std::int64_t kNoTicket = -1;

}  // namespace

Runner::Runner(const RankShape& shape, const RankProgram& program, MemoryLayout& layout,
               std::span<const PipelineStage> stages, const Execution& run, Device& device, StepClock* clock,
               TokenSource& data)
    : shape_(shape),
      program_(program),
      layout_(layout),
      stages_(stages),
      run_(run),
      device_(device),
      clock_(clock),
      data_(data),
      mesh_(shape.plan),
      buffers_(shape, program),
      max_slots_used_(shape.chunks.size(), 0) {}

StepResult Runner::RunStep(std::int64_t step, const Optimizer& optimizer) {
  step_ = step;
  optimizer_ = &optimizer;
  tickets_.assign(program_.size(), kNoTicket);
  for (std::size_t i = 0; i < program_.size(); ++i) {
    WaitFor(program_[i]);
    Run(i);
  }
  run_.pending.WaitAll();
  return ReadScalars();
}

void Runner::WaitFor(const Action& action) {
  for (const std::int32_t earlier : action.after) {
    const std::int64_t ticket = tickets_.at(static_cast<std::size_t>(earlier));
    if (ticket != kNoTicket) run_.pending.Wait(ticket);
  }
}

void Runner::Run(std::size_t index) {
  const Action& action = program_[index];
  if (observer_ != nullptr) observer_->OnStart(index);
  if (std::unique_ptr<Work> work = Communicate(action)) {
    std::function<void()> at_end;
    if (observer_ != nullptr) {
      at_end = [this, observer = observer_, index] {
        run_.stream.Synchronize();  // Work::Wait may have blocked only the stream, not the host
        observer->OnEnd(index);
      };
    }
    tickets_[index] = run_.pending.Add(std::move(work), std::move(at_end));
    return;
  }
  Compute(action);
  if (observer_ != nullptr) {
    run_.stream.Synchronize();
    observer_->OnEnd(index);
  }
}

// Returns null for an action that is not a send or receive.
std::unique_ptr<Work> Runner::Communicate(const Action& action) {
  const auto send = [&](const Tensor& tensor, int channel) {
    return run_.groups.pipeline->Send(OwnPartOfMessage(shape_, tensor), PeerInPipeline(action), channel,
                                      run_.stream);
  };
  const auto recv = [&](const Tensor& tensor, int channel) {
    return run_.groups.pipeline->Recv(OwnPartOfMessage(shape_, tensor), PeerInPipeline(action), channel,
                                      run_.stream);
  };
  switch (action.kind) {
    case ActionKind::kSendActivation: return send(layout_.output(UseOf(action).output), kActivationChannel);
    case ActionKind::kRecvActivation: return recv(SlotOf(action).layers.front().x, kActivationChannel);
    case ActionKind::kSendGradient: return send(layout_.grad(UseOf(action).gradient), kGradientChannel);
    case ActionKind::kRecvGradient: return recv(layout_.grad(UseOf(action).gradient), kGradientChannel);
    default: return nullptr;
  }
}

void Runner::Compute(const Action& action) {
  switch (action.kind) {
    case ActionKind::kZeroScalars:
      run_.units->BeginStep(run_);
      run_.ops.Fill(layout_.workspace().scalars, 0, run_.stream);
      return;
    case ActionKind::kForward: Forward(action); return;
    case ActionKind::kBackward:
    case ActionKind::kInputGradient: Backward(action); return;
    case ActionKind::kWeightGradient: WeightGradient(action); return;
    case ActionKind::kSumNormGradients: SumNormGradients(run_, layout_); return;
    case ActionKind::kReduceGradients: run_.units->ReduceGradients(run_); return;
    case ActionKind::kSumTiedEmbedding: SumTiedEmbedding(run_, layout_); return;
    case ActionKind::kGatherParameters: run_.units->GatherParameters(run_); return;
    case ActionKind::kReduceScalars: ReduceScalars(); return;
    case ActionKind::kOptimizer: (*optimizer_)(); return;
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient: return;  // handled by Communicate
  }
}

void Runner::Forward(const Action& action) {
  const std::size_t chunk = shape_.ChunkOfStage(action.stage);
  const StageShape& stage = shape_.chunks[chunk];
  const BufferUse& use = UseOf(action);
  const ActivationSlot& slot = SlotOf(action);
  max_slots_used_[chunk] = std::max(max_slots_used_[chunk], use.slot + 1);
  LoadTokens(action.microbatch, stage, slot);
  BeginCompute(action);
  if (!stage.first) GatherMessage(run_, shape_, slot.layers.front().x);
  run_.units->Read(run_, kNormUnit);
  stages_[chunk].Forward(run_, slot, stage.last ? Tensor{} : layout_.output(use.output));
  EndCompute();
}

void Runner::Backward(const Action& action) {
  const bool accumulate = !WritesGradients(action.kind, action.microbatch);
  const std::size_t chunk = shape_.ChunkOfStage(action.stage);
  Tensor& grad = layout_.grad(UseOf(action).gradient);
  BeginCompute(action);
  if (!shape_.chunks[chunk].last) GatherMessage(run_, shape_, grad);
  stages_[chunk].Backward(run_, SlotOf(action), grad, accumulate);
  EndCompute();
}

void Runner::WeightGradient(const Action& action) {
  BeginCompute(action);
  stages_[shape_.ChunkOfStage(action.stage)].WeightGradient(run_, SlotOf(action),
                                                            !WritesGradients(action.kind, action.microbatch));
  EndCompute();
}

void Runner::BeginCompute(const Action& action) {
  if (clock_ != nullptr) clock_->BeginCompute();
  run_.units->BeginAction(run_, stages_[shape_.ChunkOfStage(action.stage)].UnitsOf(action.kind),
                          IsLastCompute(shape_.plan, shape_.microbatches, action));
}

void Runner::EndCompute() {
  run_.units->EndAction(run_);
  if (clock_ != nullptr) clock_->EndCompute();
}

void Runner::ReduceScalars() {
  AddSquaredNorm(run_, shape_, layout_);
  run_.AllReduce(run_.groups.world, layout_.workspace().scalars, ReduceOp::kSum);
}

// Waits for all issued work, then returns the step's loss and norm.
StepResult Runner::ReadScalars() {
  double scalars[2] = {0, 0};
  device_.CopyToHost(scalars, layout_.workspace().scalars.data, sizeof(scalars), run_.stream);
  run_.stream.Synchronize();
  // Every rank of a tensor group has added the same loss.
  const double tokens =
      static_cast<double>(shape_.workload.global_batch) * static_cast<double>(shape_.seq_len);
  return {.loss = scalars[0] / static_cast<double>(mesh_.size(Axis::kTensor)) / tokens,
          .grad_norm = std::sqrt(scalars[1])};
}

void Runner::LoadTokens(std::int64_t microbatch, const StageShape& stage, const ActivationSlot& slot) {
  if (!stage.first && !stage.last) return;
  const std::int64_t s = shape_.seq_len;
  const std::int64_t first = FirstSequence(step_, shape_.workload.global_batch, shape_.data,
                                           BatchRanks(shape_.plan), microbatch, shape_.micro_batch);
  sequence_.resize(s + 1);
  tokens_.resize(shape_.tokens);
  targets_.resize(shape_.tokens);
  for (std::int64_t i = 0; i < shape_.micro_batch; ++i) {
    data_.Read(first + i, sequence_);
    std::copy_n(sequence_.begin(), s, tokens_.begin() + i * s);
    std::copy_n(sequence_.begin() + 1, s, targets_.begin() + i * s);
  }
  if (stage.first) device_.CopyFromHost(slot.tokens.data, tokens_.data(), slot.tokens.Bytes(), run_.stream);
  if (stage.last) {
    device_.CopyFromHost(slot.head.targets.data, targets_.data(), slot.head.targets.Bytes(), run_.stream);
  }
}

const BufferUse& Runner::UseOf(const Action& action) const {
  return buffers_.At(shape_.ChunkOfStage(action.stage), action.microbatch);
}

ActivationSlot& Runner::SlotOf(const Action& action) const {
  return layout_.slots(shape_.ChunkOfStage(action.stage)).at(UseOf(action).slot);
}

int Runner::PeerInPipeline(const Action& action) const {
  return static_cast<int>(mesh_.Coordinate(action.peer, Axis::kPipeline));
}

}  // namespace autocfg::trainer
