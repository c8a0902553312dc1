#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "search/plan/model_stages.h"
#include "search/schedule/program_checks.h"

namespace autocfg {
namespace {

class OrderCheck {
 public:
  explicit OrderCheck(const RankActions& actions)
      : actions_(actions), list_(actions.list()), plan_(actions.plan()) {}

  absl::Status Run() {
    MakeClocks();
    CheckMicrobatches();
    CheckBuffers();
    CheckSlots();
    CheckStep();
    return problem_;
  }

 private:
  // by lane: the last position in it that is complete before, or -1
  using Clock = std::array<std::int32_t, kLanes>;

  bool Last(std::int64_t stage) const { return IsLastStage(plan_, stage); }
  std::string Text(std::int32_t index) const { return ToString(list_[static_cast<std::size_t>(index)]); }

  void MakeClocks() {
    std::array<std::int32_t, kLanes> length{};
    std::array<std::int32_t, kLanes> last;
    last.fill(kMissing);
    clocks_.resize(list_.size());
    position_.resize(list_.size());
    for (std::size_t i = 0; i < list_.size(); ++i) {
      clocks_[i].fill(-1);
      const std::size_t lane = Index(list_[i].lane);
      if (last[lane] != kMissing) Merge(i, last[lane]);
      for (const std::int32_t after : list_[i].after) Merge(i, after);
      position_[i] = length[lane]++;
      last[lane] = static_cast<std::int32_t>(i);
    }
  }

  void Merge(std::size_t i, std::int32_t before) {
    const auto b = static_cast<std::size_t>(before);
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      clocks_[i][lane] = std::max(clocks_[i][lane], clocks_[b][lane]);
    std::int32_t& own = clocks_[i][Index(list_[b].lane)];
    own = std::max(own, position_[b]);
  }

  // Notes the first pair that breaks: action `later` must wait, directly or not, for `earlier`.
  void Require(std::int32_t later, std::int32_t earlier, std::string_view why) {
    if (!problem_.ok()) return;
    const auto l = static_cast<std::size_t>(later);
    const auto e = static_cast<std::size_t>(earlier);
    if (position_[e] <= clocks_[l][Index(list_[e].lane)]) return;
    problem_ = WrongProgram(actions_.rank(),
                            fmt::format("{} does not wait for {}, {}", Text(later), Text(earlier), why));
  }

  void CheckMicrobatches() {
    using enum ActionKind;
    const std::int32_t zero = actions_.At(kZeroScalars);
    const bool splits = SplitsBackward(plan_);
    const ActionKind makes_gradient = splits ? kInputGradient : kBackward;
    for (std::int64_t chunk = 0; chunk < plan_.virtual_stages; ++chunk) {
      const std::int64_t stage = StageOf(plan_, actions_.pipeline_rank(), chunk);
      for (std::int64_t k = 0; k < actions_.microbatches(); ++k) {
        const std::int32_t forward = actions_.At(kForward, stage, k);
        const std::int32_t backward = actions_.At(makes_gradient, stage, k);
        Require(forward, zero, "which clears the loss");
        Require(backward, forward, "whose activations it reads");
        if (k > 0) Require(backward, actions_.At(makes_gradient, stage, 0), "which writes the gradients");
        if (splits) {
          const std::int32_t weights = actions_.At(kWeightGradient, stage, k);
          Require(weights, backward, "whose gradients it reads");
          if (k > 0)
            Require(weights, actions_.At(kWeightGradient, stage, k - 1), "which comes first in the sums");
        }
        if (!IsFirstStage(stage)) {
          Require(forward, actions_.At(kRecvActivation, stage, k), "which brings its input");
          Require(actions_.At(kSendGradient, stage, k), backward, "which makes what it sends");
        }
        if (!Last(stage)) {
          Require(actions_.At(kSendActivation, stage, k), forward, "which makes what it sends");
          Require(backward, actions_.At(kRecvGradient, stage, k), "which brings its gradient");
        }
      }
    }
  }

  // The forwards that send use two output buffers in turn, the backwards two or three gradient buffers.
  void CheckBuffers() {
    using enum ActionKind;
    if (plan_.pp == 1) return;
    std::array<std::int32_t, 2> output{kMissing, kMissing};
    const PipelineShape shape(plan_, actions_.microbatches(), /*ties_embeddings=*/false);
    std::vector<std::int32_t> gradient(
        static_cast<std::size_t>(GradientBuffers(shape, actions_.pipeline_rank())), kMissing);
    std::size_t outputs = 0, backwards = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const std::int64_t stage = list_[i].stage;
      const std::int64_t k = list_[i].microbatch;
      if (list_[i].kind == kForward && !Last(stage)) {
        std::int32_t& user = output[outputs++ % output.size()];
        if (user != kMissing)
          Require(static_cast<std::int32_t>(i), user, "which still uses its output buffer");
        user = actions_.At(kSendActivation, stage, k);
      }
      if (MakesInputGradient(list_[i].kind)) {
        std::int32_t& user = gradient[backwards++ % gradient.size()];
        const std::int32_t writer =
            Last(stage) ? static_cast<std::int32_t>(i) : actions_.At(kRecvGradient, stage, k);
        if (user != kMissing) Require(writer, user, "which still uses its gradient buffer");
        user = IsFirstStage(stage) ? static_cast<std::int32_t>(i) : actions_.At(kSendGradient, stage, k);
      }
    }
  }

  // Activation slots: a microbatch takes its stage's lowest free one, which its receive may fill only once
  // the last action that used it is done. Where backwards are split, the tensors of the head are no part of
  // the slot: a forward of the last stage needs those of the microbatch before.
  void CheckSlots() {
    using Slot = std::pair<std::int64_t, std::int32_t>;  // microbatch in it, last action that left it
    std::vector<std::vector<Slot>> slots_of_chunk(static_cast<std::size_t>(plan_.virtual_stages));
    std::int32_t head_user = kMissing;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const ActionKind kind = list_[i].kind;
      const std::int64_t stage = list_[i].stage;
      const std::int64_t k = list_[i].microbatch;
      const auto index = static_cast<std::int32_t>(i);
      if (const bool takes = TakesSlot(kind, stage); takes || FreesSlot(kind)) {
        std::vector<Slot>& slots = slots_of_chunk[static_cast<std::size_t>(ChunkOf(plan_, stage))];
        const std::int64_t wanted = takes ? kMissing : k;
        auto slot =
            std::find_if(slots.begin(), slots.end(), [wanted](const Slot& s) { return s.first == wanted; });
        if (FreesSlot(kind)) {
          if (slot != slots.end()) *slot = {kMissing, index};
          continue;
        }
        if (slot == slots.end()) slot = slots.insert(slots.end(), {kMissing, kMissing});
        if (slot->second != kMissing && IsRecv(kind))
          Require(index, slot->second, "which still uses its activation slot");
        slot->first = k;
      }
      if (kind != ActionKind::kForward || !SplitsBackward(plan_) || !Last(stage)) continue;
      if (head_user != kMissing) Require(index, head_user, "which still uses the tensors of the head");
      head_user = actions_.At(ActionKind::kInputGradient, stage, k);
    }
  }

  void CheckStep() {
    using enum ActionKind;
    std::int32_t last = kMissing;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (IsStageCompute(list_[i].kind)) last = static_cast<std::int32_t>(i);
    }
    std::int32_t before = last;
    for (const ActionKind kind : {kSumNormGradients, kReduceGradients, kSumTiedEmbedding, kReduceScalars,
                                  kOptimizer, kGatherParameters}) {
      const std::int32_t action = actions_.At(kind);
      if (action == kMissing) continue;
      Require(action, last, "which still adds to the gradients");
      Require(action, before, "whose result it reads");
      before = action;
    }
  }

  const RankActions& actions_;
  const RankProgram& list_;
  const ParallelPlan& plan_;
  std::vector<Clock> clocks_;
  std::vector<std::int32_t> position_;  // in its lane
  absl::Status problem_;
};

}  // namespace

absl::Status CheckOrder(const RankActions& actions) { return OrderCheck(actions).Run(); }

}  // namespace autocfg
