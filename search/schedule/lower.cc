#include <algorithm>
#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "search/plan/legality.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

constexpr std::int32_t kNothing = -1;

// Writes the program of one rank.
class RankLowering {
 public:
  RankLowering(const RankMesh& mesh, std::int64_t rank, bool tied_embeddings)
      : stage_(static_cast<std::int32_t>(mesh.Coordinate(rank, Axis::kPipeline))),
        stages_(static_cast<std::int32_t>(mesh.size(Axis::kPipeline))),
        data_parallel_(mesh.size(Axis::kData) > 1),
        tied_embeddings_(tied_embeddings) {
    const std::vector<std::int64_t> pipeline = mesh.Group(rank, CommGroup::kPipeline);
    const auto stage = static_cast<std::size_t>(stage_);
    if (!First()) previous_ = static_cast<std::int32_t>(pipeline[stage - 1]);
    if (!Last()) next_ = static_cast<std::int32_t>(pipeline[stage + 1]);
  }

  RankProgram Run(const ComputeOrder& order) {
    Add(ActionKind::kZeroGradients, Lane::kCompute, kNothing, kNothing, kNothing, {});
    for (const Action& action : order) {
      if (action.kind == ActionKind::kForward) {
        Forward(action.microbatch);
      } else {
        Backward(action.microbatch);
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

  bool First() const { return stage_ == 0; }
  bool Last() const { return stage_ == stages_ - 1; }

  std::int32_t Add(ActionKind kind, Lane lane, std::int32_t stage, std::int32_t microbatch, std::int32_t peer,
                   std::initializer_list<std::int32_t> after) {
    Action action{.kind = kind, .lane = lane, .stage = stage, .microbatch = microbatch, .peer = peer};
    for (const std::int32_t index : after) {
      if (index != kNothing) action.after.push_back(index);
    }
    std::sort(action.after.begin(), action.after.end());
    program_.push_back(std::move(action));
    return static_cast<std::int32_t>(program_.size()) - 1;
  }

  Slot& TakeSlot(std::int32_t microbatch) {
    auto slot = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.microbatch == kNothing; });
    if (slot == slots_.end()) slot = slots_.insert(slots_.end(), Slot{});
    slot->microbatch = microbatch;
    return *slot;
  }

  void Forward(std::int32_t k) {
    const Slot& slot = TakeSlot(k);
    std::int32_t received = kNothing;
    if (!First()) {
      received = Add(ActionKind::kRecvActivation, Lane::kPipelineRecv, stage_, k, previous_, {slot.last_backward});
    }
    std::int32_t& output_user = output_user_[static_cast<std::size_t>(k % 2)];
    const std::int32_t forward = Add(ActionKind::kForward, Lane::kCompute, stage_, k, kNothing, {received, output_user});
    if (!Last()) output_user = Add(ActionKind::kSendActivation, Lane::kPipelineSend, stage_, k, next_, {forward});
  }

  void Backward(std::int32_t k) {
    std::int32_t& gradient_user = gradient_user_[static_cast<std::size_t>(backwards_ % 2)];
    ++backwards_;
    std::int32_t received = kNothing;
    if (!Last()) received = Add(ActionKind::kRecvGradient, Lane::kPipelineRecv, stage_, k, next_, {gradient_user});
    // The last stage writes the buffer itself; elsewhere the receive has already waited for its last user.
    const std::int32_t written_after = Last() && !First() ? gradient_user : kNothing;
    last_backward_ = Add(ActionKind::kBackward, Lane::kCompute, stage_, k, kNothing, {received, written_after});
    gradient_user = last_backward_;
    if (!First()) {
      gradient_user = Add(ActionKind::kSendGradient, Lane::kPipelineSend, stage_, k, previous_, {last_backward_});
    }
    const auto slot = std::find_if(slots_.begin(), slots_.end(), [k](const Slot& s) { return s.microbatch == k; });
    if (slot == slots_.end()) throw std::logic_error(fmt::format("backward of microbatch {} before its forward", k));
    *slot = {kNothing, last_backward_};
  }

  void Finish() {
    std::int32_t before = last_backward_;
    const auto reduce = [&](ActionKind kind) { before = Add(kind, Lane::kReduce, kNothing, kNothing, kNothing, {before}); };
    if (data_parallel_) reduce(ActionKind::kReduceGradients);
    if (tied_embeddings_ && stages_ > 1 && (First() || Last())) reduce(ActionKind::kSumTiedEmbedding);
    reduce(ActionKind::kReduceScalars);
    Add(ActionKind::kOptimizer, Lane::kCompute, kNothing, kNothing, kNothing, {before});
  }

  std::int32_t stage_, stages_;
  bool data_parallel_, tied_embeddings_;
  std::int32_t previous_ = kNothing, next_ = kNothing;
  RankProgram program_;
  std::vector<Slot> slots_;
  std::array<std::int32_t, 2> output_user_{kNothing, kNothing};
  std::array<std::int32_t, 2> gradient_user_{kNothing, kNothing};
  std::int32_t last_backward_ = kNothing;
  int backwards_ = 0;
};

}  // namespace

ComputeOrder MakeComputeOrder(const ParallelPlan& plan, int stage, int microbatches) {
  const int stages = static_cast<int>(plan.pp);
  switch (plan.schedule) {
    case Schedule::kGPipe: return GPipeOrder(stage, stages, microbatches);
    case Schedule::kOneFOneB: return OneFOneBOrder(stage, stages, microbatches);
    case Schedule::kInterleaved:
    case Schedule::kZeroBubbleH1: break;
  }
  throw std::logic_error("a schedule without a generator: CheckEngineSupports was not asked");
}

int MaxInFlight(const ComputeOrder& order) {
  int now = 0;
  int most = 0;
  for (const Action& action : order) {
    if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
    if (action.kind == ActionKind::kBackward) --now;
  }
  return most;
}

Program Lower(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  const RankMesh mesh(plan);
  Program program{plan, MicrobatchCount(workload, plan), {}};
  std::vector<ComputeOrder> orders;
  for (int stage = 0; stage < plan.pp; ++stage) {
    orders.push_back(MakeComputeOrder(plan, stage, static_cast<int>(program.microbatches)));
  }
  program.ranks.reserve(static_cast<std::size_t>(mesh.size()));
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    const auto stage = static_cast<std::size_t>(mesh.Coordinate(rank, Axis::kPipeline));
    program.ranks.push_back(RankLowering(mesh, rank, model.tied_embeddings).Run(orders[stage]));
  }
  return program;
}

}  // namespace autocfg
