#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/program_checks.h"

namespace autocfg {
namespace {

constexpr std::int32_t kNone = -1;

class UnbufferedWalk {
 public:
  UnbufferedWalk(const Program& program, const RankMesh& mesh)
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
      AUTOCFG_RETURN_IF_ERROR(CheckDone(r));
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
    return kNone;
  }

  bool Issue(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.next == program_.ranks[r].size()) return false;
    const Action& action = program_.ranks[r][rank.next];
    if (AwaitedBy(r, action) != kNone) return false;
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
      return WrongProgram(static_cast<std::int64_t>(r),
                          fmt::format("{} is stuck: it waits for {}, which never completes", ToString(action),
                                      ToString(At(r, AwaitedBy(r, action)))));
    }
    for (const Lane lane : {Lane::kPipelineSend, Lane::kPipelineRecv, Lane::kReduce}) {
      if (const Action* head = Head(r, lane); head != nullptr) {
        return WrongProgram(static_cast<std::int64_t>(r), fmt::format("{} never completes", ToString(*head)));
      }
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const RankMesh& mesh_;
  std::vector<Rank> ranks_;
};

}  // namespace

absl::Status CheckEnds(const Program& program, const RankMesh& mesh) {
  return UnbufferedWalk(program, mesh).Run();
}

}  // namespace autocfg
