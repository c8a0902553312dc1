#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "search/plan/model_stages.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

constexpr std::int32_t kMissing = -1;
constexpr std::size_t kKinds = static_cast<std::size_t>(ActionKind::kOptimizer) + 1;
constexpr std::size_t kLanes = static_cast<std::size_t>(Lane::kReduce) + 1;

std::size_t Index(ActionKind kind) { return static_cast<std::size_t>(kind); }
std::size_t Index(Lane lane) { return static_cast<std::size_t>(lane); }

absl::Status Wrong(std::int64_t rank, std::string_view problem) {
  return absl::FailedPreconditionError(fmt::format("program: rank {}: {}", rank, problem));
}

bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kSendGradient;
}
bool IsRecv(ActionKind kind) {
  return kind == ActionKind::kRecvActivation || kind == ActionKind::kRecvGradient;
}
bool IsMicrobatch(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward || IsSend(kind) || IsRecv(kind);
}

ActionKind ReceiveOf(ActionKind send) {
  return send == ActionKind::kSendActivation ? ActionKind::kRecvActivation : ActionKind::kRecvGradient;
}

Lane LaneOf(ActionKind kind) {
  if (IsSend(kind)) return Lane::kPipelineSend;
  if (IsRecv(kind)) return Lane::kPipelineRecv;
  const bool computes = kind == ActionKind::kForward || kind == ActionKind::kBackward ||
                        kind == ActionKind::kZeroGradients || kind == ActionKind::kOptimizer;
  return computes ? Lane::kCompute : Lane::kReduce;
}

CommGroup GroupOf(ActionKind collective) {
  switch (collective) {
    case ActionKind::kReduceGradients: return CommGroup::kData;
    case ActionKind::kSumTiedEmbedding: return CommGroup::kEmbedding;
    default: return CommGroup::kWorld;
  }
}

// Part 1: the list of one rank.
class RankCheck {
 public:
  RankCheck(const Program& program, const RankMesh& mesh, std::int64_t rank)
      : list_(program.ranks[static_cast<std::size_t>(rank)]),
        plan_(program.plan),
        rank_(rank),
        microbatches_(program.microbatches),
        pipeline_rank_(mesh.Coordinate(rank, Axis::kPipeline)) {
    const std::vector<std::int64_t> pipeline = mesh.Group(rank, CommGroup::kPipeline);
    const auto peer = [&](std::int64_t steps) {
      return pipeline[static_cast<std::size_t>((pipeline_rank_ + steps) % plan_.pp)];
    };
    if (plan_.pp > 1) {
      next_ = peer(1);
      previous_ = peer(plan_.pp - 1);
    }
    const auto cells = static_cast<std::size_t>(plan_.virtual_stages * microbatches_);
    for (std::vector<std::int32_t>& found : found_) found.assign(cells, kMissing);
    single_.fill(kMissing);
  }

  absl::Status Run() {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (absl::Status status = CheckAction(static_cast<std::int32_t>(i)); !status.ok()) return status;
    }
    if (absl::Status status = CheckComplete(); !status.ok()) return status;
    MakeClocks();
    CheckMicrobatches();
    CheckBuffers();
    CheckSlots();
    CheckStep();
    return problem_;
  }

  bool Has(ActionKind kind) const { return single_[Index(kind)] != kMissing; }

 private:
  // by lane: the last position in it that is complete before, or -1
  using Clock = std::array<std::int32_t, kLanes>;

  bool Last(std::int64_t stage) const { return IsLastStage(plan_, stage); }
  std::string Text(std::int32_t index) const { return ToString(list_[static_cast<std::size_t>(index)]); }

  bool Owns(std::int64_t stage) const {
    return stage >= 0 && stage < StageCount(plan_) && PipelineRankOf(plan_, stage) == pipeline_rank_;
  }

  // Whether the stage has actions of that kind, one for each microbatch.
  bool StageHas(ActionKind kind, std::int64_t stage) const {
    switch (kind) {
      case ActionKind::kSendActivation:
      case ActionKind::kRecvGradient: return !Last(stage);
      case ActionKind::kRecvActivation:
      case ActionKind::kSendGradient: return !IsFirstStage(stage);
      default: return true;
    }
  }

  // Whether the rank has an action of that kind, which is not tied to a microbatch.
  bool RankHas(ActionKind kind) const {
    switch (kind) {
      case ActionKind::kReduceGradients: return plan_.dp > 1;
      case ActionKind::kSumTiedEmbedding:
        return plan_.pp > 1 && (pipeline_rank_ == 0 || pipeline_rank_ == plan_.pp - 1);
      default: return true;
    }
  }

  std::int64_t PeerOf(ActionKind kind) const {
    if (kind == ActionKind::kSendActivation || kind == ActionKind::kRecvGradient) return next_;
    if (kind == ActionKind::kRecvActivation || kind == ActionKind::kSendGradient) return previous_;
    return kMissing;
  }

  // Where the index of an action of a microbatch is noted. Requires a stage of the rank.
  std::int32_t& Cell(ActionKind kind, std::int64_t stage, std::int64_t microbatch) {
    return found_[Index(kind)][static_cast<std::size_t>(ChunkOf(plan_, stage) * microbatches_ + microbatch)];
  }

  absl::Status CheckAction(std::int32_t i) {
    const Action& action = list_[static_cast<std::size_t>(i)];
    if (Index(action.kind) >= kKinds) return Wrong(rank_, fmt::format("action {} is of no known kind", i));
    const std::string text = ToString(action);
    if (action.lane != LaneOf(action.kind)) return Wrong(rank_, fmt::format("{} is on the wrong lane", text));
    if (action.peer != PeerOf(action.kind)) {
      return Wrong(rank_, fmt::format("{} names peer {}, not {}", text, action.peer, PeerOf(action.kind)));
    }
    for (const std::int32_t after : action.after) {
      if (after < 0 || after >= i) {
        return Wrong(rank_,
                     fmt::format("{} waits for action {}, which is not before it in the list", text, after));
      }
    }
    std::int32_t* place = &single_[Index(action.kind)];
    if (IsMicrobatch(action.kind)) {
      if (!Owns(action.stage)) {
        return Wrong(rank_, fmt::format("{} is not of a stage of pipeline rank {}", text, pipeline_rank_));
      }
      if (!StageHas(action.kind, action.stage)) {
        return Wrong(rank_, fmt::format("{} does not belong on stage {}", text, action.stage));
      }
      if (action.microbatch < 0 || action.microbatch >= microbatches_) {
        return Wrong(rank_, fmt::format("{} names none of the {} microbatches", text, microbatches_));
      }
      place = &Cell(action.kind, action.stage, action.microbatch);
    } else if (action.stage != kMissing || action.microbatch != kMissing) {
      return Wrong(rank_, fmt::format("{} is of the whole rank, not of a stage or microbatch", text));
    } else if (!RankHas(action.kind)) {
      return Wrong(rank_, fmt::format("{} does not belong on pipeline rank {}", text, pipeline_rank_));
    }
    if (*place != kMissing) return Wrong(rank_, fmt::format("{} comes twice", text));
    *place = i;
    return absl::OkStatus();
  }

  absl::Status CheckComplete() {
    for (std::size_t k = 0; k < kKinds; ++k) {
      const ActionKind kind = static_cast<ActionKind>(k);
      Action missing{.kind = kind, .lane = LaneOf(kind), .peer = static_cast<std::int32_t>(PeerOf(kind))};
      if (!IsMicrobatch(kind)) {
        // Whether the embedding is tied is the model's affair; all that is checked is that both sides agree.
        if (!RankHas(kind) || kind == ActionKind::kSumTiedEmbedding) continue;
        if (single_[k] == kMissing) return Wrong(rank_, fmt::format("{} is missing", ToString(missing)));
        continue;
      }
      for (std::int64_t chunk = 0; chunk < plan_.virtual_stages; ++chunk) {
        const std::int64_t stage = StageOf(plan_, pipeline_rank_, chunk);
        if (!StageHas(kind, stage)) continue;
        for (std::int64_t microbatch = 0; microbatch < microbatches_; ++microbatch) {
          if (Cell(kind, stage, microbatch) != kMissing) continue;
          missing.stage = static_cast<std::int32_t>(stage);
          missing.microbatch = static_cast<std::int32_t>(microbatch);
          return Wrong(rank_, fmt::format("{} is missing", ToString(missing)));
        }
      }
    }
    return absl::OkStatus();
  }

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
    problem_ = Wrong(rank_, fmt::format("{} does not wait for {}, {}", Text(later), Text(earlier), why));
  }

  void CheckMicrobatches() {
    using enum ActionKind;
    const std::int32_t zero = single_[Index(kZeroGradients)];
    for (std::int64_t chunk = 0; chunk < plan_.virtual_stages; ++chunk) {
      const std::int64_t stage = StageOf(plan_, pipeline_rank_, chunk);
      for (std::int64_t k = 0; k < microbatches_; ++k) {
        const std::int32_t forward = Cell(kForward, stage, k);
        const std::int32_t backward = Cell(kBackward, stage, k);
        Require(forward, zero, "which clears the loss");
        Require(backward, zero, "which clears the gradients");
        Require(backward, forward, "whose activations it reads");
        if (!IsFirstStage(stage)) {
          Require(forward, Cell(kRecvActivation, stage, k), "which brings its input");
          Require(Cell(kSendGradient, stage, k), backward, "which makes what it sends");
        }
        if (!Last(stage)) {
          Require(Cell(kSendActivation, stage, k), forward, "which makes what it sends");
          Require(backward, Cell(kRecvGradient, stage, k), "which brings its gradient");
        }
      }
    }
  }

  // Two output buffers by parity of the order of the forwards that send, two gradient buffers by parity of
  // the order of backwards.
  void CheckBuffers() {
    using enum ActionKind;
    if (plan_.pp == 1) return;
    std::array<std::int32_t, 2> output{kMissing, kMissing};
    std::array<std::int32_t, 2> gradient{kMissing, kMissing};
    int outputs = 0;
    int backwards = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const std::int64_t stage = list_[i].stage;
      const std::int64_t k = list_[i].microbatch;
      if (list_[i].kind == kForward && !Last(stage)) {
        std::int32_t& user = output[static_cast<std::size_t>(outputs++ % 2)];
        if (user != kMissing)
          Require(static_cast<std::int32_t>(i), user, "which still uses its output buffer");
        user = Cell(kSendActivation, stage, k);
      }
      if (list_[i].kind == kBackward) {
        std::int32_t& user = gradient[static_cast<std::size_t>(backwards++ % 2)];
        const std::int32_t writer =
            Last(stage) ? static_cast<std::int32_t>(i) : Cell(kRecvGradient, stage, k);
        if (user != kMissing) Require(writer, user, "which still uses its gradient buffer");
        user = IsFirstStage(stage) ? static_cast<std::int32_t>(i) : Cell(kSendGradient, stage, k);
      }
    }
  }

  // Activation slots: a forward takes its stage's lowest free one, which its receive may fill only once the
  // last backward in it is done.
  void CheckSlots() {
    using Slot = std::pair<std::int64_t, std::int32_t>;  // microbatch in it, last backward that left it
    std::vector<std::vector<Slot>> slots_of_chunk(static_cast<std::size_t>(plan_.virtual_stages));
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const ActionKind kind = list_[i].kind;
      if (kind != ActionKind::kForward && kind != ActionKind::kBackward) continue;
      const std::int64_t stage = list_[i].stage;
      const std::int64_t k = list_[i].microbatch;
      std::vector<Slot>& slots = slots_of_chunk[static_cast<std::size_t>(ChunkOf(plan_, stage))];
      const std::int64_t wanted = kind == ActionKind::kForward ? kMissing : k;
      auto slot =
          std::find_if(slots.begin(), slots.end(), [wanted](const Slot& s) { return s.first == wanted; });
      if (kind == ActionKind::kBackward) {
        if (slot != slots.end()) *slot = {kMissing, static_cast<std::int32_t>(i)};
        continue;
      }
      if (slot == slots.end()) slot = slots.insert(slots.end(), {kMissing, kMissing});
      if (slot->second != kMissing && !IsFirstStage(stage)) {
        Require(Cell(ActionKind::kRecvActivation, stage, k), slot->second,
                "which still uses its activation slot");
      }
      slot->first = k;
    }
  }

  void CheckStep() {
    using enum ActionKind;
    std::int32_t last = kMissing;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (list_[i].kind == kForward || list_[i].kind == kBackward) last = static_cast<std::int32_t>(i);
    }
    std::int32_t before = last;
    for (const ActionKind kind : {kReduceGradients, kSumTiedEmbedding, kReduceScalars, kOptimizer}) {
      const std::int32_t action = single_[Index(kind)];
      if (action == kMissing) continue;
      Require(action, last, "which still adds to the gradients");
      Require(action, before, "whose result it reads");
      before = action;
    }
  }

  const RankProgram& list_;
  const ParallelPlan& plan_;
  std::int64_t rank_, microbatches_, pipeline_rank_;
  // ranks, around the ring; none where there is no other
  std::int64_t previous_ = kMissing, next_ = kMissing;
  // by kind, then chunk and microbatch: the index in the list
  std::array<std::vector<std::int32_t>, kKinds> found_;
  std::array<std::int32_t, kKinds> single_;  // by kind, for those of the whole rank
  std::vector<Clock> clocks_;
  std::vector<std::int32_t> position_;  // in its lane
  absl::Status problem_;
};

// Part 2: sends meet receives in the same order.
absl::Status CheckMatches(const Program& program) {
  for (std::size_t sender = 0; sender < program.ranks.size(); ++sender) {
    for (const ActionKind send : {ActionKind::kSendActivation, ActionKind::kSendGradient}) {
      std::vector<const Action*> sends;
      for (const Action& action : program.ranks[sender]) {
        if (action.kind == send) sends.push_back(&action);
      }
      if (sends.empty()) continue;
      const std::int32_t receiver = sends.front()->peer;
      std::size_t i = 0;
      for (const Action& action : program.ranks[static_cast<std::size_t>(receiver)]) {
        if (action.kind != ReceiveOf(send)) continue;
        const std::int32_t next = send == ActionKind::kSendActivation ? 1 : -1;
        if (sends[i]->microbatch != action.microbatch || sends[i]->stage + next != action.stage) {
          return Wrong(receiver,
                       fmt::format("{} meets {} of rank {}: the two sides are not in the same order",
                                   ToString(action), ToString(*sends[i]), sender));
        }
        ++i;
      }
    }
  }
  return absl::OkStatus();
}

// Part 3: walks all ranks with nothing buffered.
class Walk {
 public:
  Walk(const Program& program, const RankMesh& mesh)
      : program_(program), mesh_(mesh), ranks_(program.ranks.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].complete.assign(program.ranks[r].size(), false);
  }

  absl::Status Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        while (Issue(r)) moved = true;
        while (CompleteSend(r) || CompleteCollective(r)) moved = true;
      }
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (absl::Status status = CheckDone(r); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  struct Lines {
    std::vector<std::int32_t> issued;  // communication of one lane, in order of issue
    std::size_t done = 0;              // of them
  };
  struct Rank {
    std::size_t next = 0;  // in the list
    std::vector<bool> complete;
    std::array<Lines, kLanes> lanes;
  };

  const Action& At(std::size_t rank, std::int32_t index) const {
    return program_.ranks[rank][static_cast<std::size_t>(index)];
  }

  // The first action of a lane that is issued and not complete; null if there is none.
  const Action* Head(std::size_t rank, Lane lane) const {
    const Lines& lines = ranks_[rank].lanes[Index(lane)];
    return lines.done < lines.issued.size() ? &At(rank, lines.issued[lines.done]) : nullptr;
  }

  void CompleteHead(std::size_t rank, Lane lane) {
    Lines& lines = ranks_[rank].lanes[Index(lane)];
    ranks_[rank].complete[static_cast<std::size_t>(lines.issued[lines.done++])] = true;
  }

  std::int32_t AwaitedBy(std::size_t rank, const Action& action) const {
    for (const std::int32_t after : action.after) {
      if (!ranks_[rank].complete[static_cast<std::size_t>(after)]) return after;
    }
    return kMissing;
  }

  bool Issue(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.next == program_.ranks[r].size()) return false;
    const Action& action = program_.ranks[r][rank.next];
    if (AwaitedBy(r, action) != kMissing) return false;
    if (action.lane == Lane::kCompute) {
      rank.complete[rank.next] = true;
    } else {
      rank.lanes[Index(action.lane)].issued.push_back(static_cast<std::int32_t>(rank.next));
    }
    ++rank.next;
    return true;
  }

  bool CompleteSend(std::size_t r) {
    const Action* send = Head(r, Lane::kPipelineSend);
    if (send == nullptr) return false;
    const auto peer = static_cast<std::size_t>(send->peer);
    const Action* receive = Head(peer, Lane::kPipelineRecv);
    if (receive == nullptr || receive->kind != ReceiveOf(send->kind) ||
        receive->peer != static_cast<std::int32_t>(r)) {
      return false;
    }
    CompleteHead(r, Lane::kPipelineSend);
    CompleteHead(peer, Lane::kPipelineRecv);
    return true;
  }

  bool CompleteCollective(std::size_t r) {
    const Action* collective = Head(r, Lane::kReduce);
    if (collective == nullptr) return false;
    const auto group = mesh_.Group(static_cast<std::int64_t>(r), GroupOf(collective->kind));
    for (const std::int64_t member : group) {
      const Action* theirs = Head(static_cast<std::size_t>(member), Lane::kReduce);
      if (theirs == nullptr || theirs->kind != collective->kind) return false;
    }
    for (const std::int64_t member : group) CompleteHead(static_cast<std::size_t>(member), Lane::kReduce);
    return true;
  }

  absl::Status CheckDone(std::size_t r) const {
    const Rank& rank = ranks_[r];
    if (rank.next < program_.ranks[r].size()) {
      const Action& action = program_.ranks[r][rank.next];
      return Wrong(static_cast<std::int64_t>(r),
                   fmt::format("{} is stuck: it waits for {}, which never completes", ToString(action),
                               ToString(At(r, AwaitedBy(r, action)))));
    }
    for (const Lane lane : {Lane::kPipelineSend, Lane::kPipelineRecv, Lane::kReduce}) {
      if (const Action* head = Head(r, lane); head != nullptr) {
        return Wrong(static_cast<std::int64_t>(r), fmt::format("{} never completes", ToString(*head)));
      }
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const RankMesh& mesh_;
  std::vector<Rank> ranks_;
};

}  // namespace

absl::Status ValidateProgram(const Program& program) {
  const ParallelPlan& plan = program.plan;
  if (plan.tp < 1 || plan.pp < 1 || plan.dp < 1 || plan.virtual_stages < 1 || program.microbatches < 1) {
    return absl::FailedPreconditionError("program: its plan has a size that is not positive");
  }
  if (plan.pp == 1 && plan.virtual_stages > 1) {
    return absl::FailedPreconditionError("program: its plan has virtual stages on a pipeline of one rank");
  }
  const RankMesh mesh(plan);
  if (static_cast<std::int64_t>(program.ranks.size()) != mesh.size()) {
    return absl::FailedPreconditionError(
        fmt::format("program: {} lists of actions for {} ranks", program.ranks.size(), mesh.size()));
  }
  std::vector<bool> sums_tied;
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    RankCheck check(program, mesh, rank);
    if (absl::Status status = check.Run(); !status.ok()) return status;
    sums_tied.push_back(check.Has(ActionKind::kSumTiedEmbedding));
  }
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    for (const std::int64_t member : mesh.Group(rank, CommGroup::kEmbedding)) {
      if (sums_tied[static_cast<std::size_t>(member)] && !sums_tied[static_cast<std::size_t>(rank)]) {
        return Wrong(rank, fmt::format("TIED is missing, but rank {} has it", member));
      }
    }
  }
  if (absl::Status status = CheckMatches(program); !status.ok()) return status;
  return Walk(program, mesh).Run();
}

}  // namespace autocfg
