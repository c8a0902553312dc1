#include "search/cost/pipeline_walk.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "search/cost/steady_state.h"
#include "search/cost/walk_rank.h"
#include "search/schedule/interleaved.h"

namespace autocfg {
namespace {

class PipelineWalk {
 public:
  // Skips what is steady unless every compute's end is asked for.
  PipelineWalk(const WalkedPipeline& pipeline, std::int64_t microbatches, std::vector<ComputeEnds>* ends)
      : p_(pipeline),
        count_(static_cast<std::int32_t>(pipeline.begin_s.size())),
        stages_(static_cast<std::int32_t>(pipeline.stages.size())),
        chunks_(stages_ / count_),
        group_(chunks_ == 1 ? 1 : count_),
        total_(microbatches * chunks_),
        // the order of stages repeats after a group, the use of buffers after two computes
        period_(chunks_ == 1 ? 2 : count_ * chunks_),
        ranks_(pipeline.begin_s.size()),
        queued_(pipeline.begin_s.size()),
        steady_(total_),
        ends_(ends) {
    for (std::int32_t r = 0; r < count_; ++r) {
      WalkRank& rank = RankAt(r);
      rank.now = pipeline.begin_s[static_cast<std::size_t>(r)];
      rank.before = r == 0 ? count_ - 1 : r - 1;
      rank.after = r + 1 == count_ ? 0 : r + 1;
      rank.moves.forward_stage = r;
      rank.moves.backward_stage = (chunks_ - 1) * count_ + r;
      rank.moves.forwards_left = rank.moves.backwards_left = group_;
      if (chunks_ > 1) {
        rank.ahead = InterleavedWarmUp(r, count_, chunks_, microbatches);
      } else {
        rank.ahead = p_.forwards_first ? microbatches : std::min<std::int64_t>(microbatches, count_ - 1 - r);
      }
    }
    if (ends_ != nullptr) ends_->resize(ranks_.size());
  }

  PipelineEnds Run() {
    for (std::int32_t r = count_ - 1; r >= 0; --r) Wake(r);
    AdvanceAll();
    // Where rank 0 stands at a whole number of periods and nobody gets on without it, the ranks stand alike.
    while (held_) {
      steady_.Skip(ranks_);
      held_ = false;
      Wake(0);
      AdvanceAll();
    }
    PipelineEnds ends{.last_backward_s = {}, .walked = walked_};
    for (const WalkRank& rank : ranks_) {
      if (rank.backwards < total_) throw std::logic_error("a pipeline that does not come to its end");
      ends.last_backward_s.push_back(rank.now);
    }
    return ends;
  }

 private:
  WalkRank& RankAt(std::int32_t r) { return ranks_[static_cast<std::size_t>(r)]; }
  const StageSeconds& StageAt(std::int32_t stage) const { return p_.stages[static_cast<std::size_t>(stage)]; }

  void Wake(std::int32_t r) {
    if (queued_[static_cast<std::size_t>(r)]) return;
    queued_[static_cast<std::size_t>(r)] = true;
    ready_.push_back(r);
  }

  void AdvanceAll() {
    while (!ready_.empty()) {
      const std::int32_t r = ready_.back();
      ready_.pop_back();
      queued_[static_cast<std::size_t>(r)] = false;
      if (r != 0 || !held_) Advance(r);
    }
  }

  // Walks on until the rank waits for another one, or is held.
  void Advance(std::int32_t r) {
    WalkRank& rank = RankAt(r);
    while (rank.backwards < total_) {
      const bool backward = rank.moves.backward_next;
      if (backward ? !Backward(r, rank) : !Forward(r, rank)) return;
      ++walked_;
      // In front of a backward stands a forward, as long as there are any, but for the first `ahead`.
      rank.moves.backward_next = rank.forwards == total_ || (!backward && rank.forwards > rank.ahead);
      if (r == 0 && ends_ == nullptr && backward == (rank.forwards == total_)) {
        const std::int64_t done = backward ? rank.backwards : rank.forwards;
        held_ = done % period_ == 0 && done + period_ < total_;
        if (held_) return;
      }
    }
  }

  bool Forward(std::int32_t r, WalkRank& rank) {
    WalkMoves& moves = rank.moves;
    const std::int32_t stage = moves.forward_stage;
    const bool first = stage == 0, last = stage + 1 == stages_;
    if (!first && !Receive(rank, rank.before)) return false;
    const std::uint8_t buffer = moves.output;
    if (!last) {
      if (moves.output_sending[buffer]) return false;
      rank.now = std::max(rank.now, rank.output_free[buffer]);
    }
    rank.now += StageAt(stage).forward;
    if (ends_ != nullptr) (*ends_)[static_cast<std::size_t>(r)].forwards.push_back(rank.now);
    moves.entered = false;
    ++rank.forwards;
    // the group goes on to the rank's next chunk, or the next group comes to its first
    if (--moves.forwards_left == 0) {
      moves.forwards_left = group_;
      moves.forward_stage = stage + count_ < stages_ ? stage + count_ : r;
    }
    if (!last) {
      moves.output ^= 1;
      moves.output_sending[buffer] = true;
      Issue(r, rank, {.to = rank.after, .gradient = false, .buffer = buffer, .issued = rank.now});
    }
    return true;
  }

  bool Backward(std::int32_t r, WalkRank& rank) {
    WalkMoves& moves = rank.moves;
    const std::int32_t stage = moves.backward_stage;
    const bool first = stage == 0, last = stage + 1 == stages_;
    const std::uint8_t buffer = moves.gradient;
    if (!moves.entered) {  // the receive, or on the last stage the backward itself, writes into the buffer
      if (moves.gradient_sending[buffer]) return false;
      rank.now = std::max(rank.now, rank.gradient_free[buffer]);
    }
    if (!last && !Receive(rank, rank.after)) return false;
    rank.now += StageAt(stage).backward;
    if (ends_ != nullptr) (*ends_)[static_cast<std::size_t>(r)].backwards.push_back(rank.now);
    moves.entered = false;
    ++rank.backwards;
    if (--moves.backwards_left == 0) {
      moves.backwards_left = group_;
      moves.backward_stage = stage >= count_ ? stage - count_ : (chunks_ - 1) * count_ + r;
    }
    moves.gradient ^= 1;
    rank.gradient_free[buffer] = rank.now;
    if (!first) {
      moves.gradient_sending[buffer] = true;
      Issue(r, rank, {.to = rank.before, .gradient = true, .buffer = buffer, .issued = rank.now});
    }
    return true;
  }

  // Issues the receive of the compute at hand, once; true when it has arrived.
  bool Receive(WalkRank& rank, std::int32_t from) {
    if (!rank.moves.entered) {
      rank.moves.entered = rank.moves.waiting = true;
      rank.moves.from = from;
      Transfer(from);
    }
    return !rank.moves.waiting;
  }

  void Issue(std::int32_t r, WalkRank& rank, const WalkSend& send) {
    rank.Push(send);
    if (rank.moves.sends == 1) Transfer(r);
  }

  // The first sends of a rank whose receivers wait for them. Sends of two kinds between the same two ranks (a
  // pipeline of two) are told apart. The receiver's lane is free: it has waited for all that it received.
  void Transfer(std::int32_t from) {
    WalkRank& sender = RankAt(from);
    while (sender.moves.sends > 0) {
      const WalkSend send = sender.sends[0];
      WalkRank& receiver = RankAt(send.to);
      const WalkMoves& moves = receiver.moves;
      if (!moves.waiting || moves.from != from || moves.backward_next != send.gradient) return;
      const double end = std::max({send.issued, receiver.now, sender.send_free}) + p_.message_s;
      sender.send_free = receiver.now = end;
      receiver.moves.waiting = false;
      (send.gradient ? sender.gradient_free : sender.output_free)[send.buffer] = end;
      (send.gradient ? sender.moves.gradient_sending : sender.moves.output_sending)[send.buffer] = false;
      sender.Pop();
      Wake(send.to);
      Wake(from);
    }
  }

  const WalkedPipeline& p_;
  const std::int32_t count_, stages_, chunks_;
  const std::int32_t group_;  // microbatches that go through a stage before another one's turn
  const std::int64_t total_;  // forwards of a rank
  const std::int64_t period_;
  std::vector<WalkRank> ranks_;
  std::vector<bool> queued_;
  std::vector<std::int32_t> ready_;
  SteadyState steady_;
  bool held_ = false;  // rank 0
  std::vector<ComputeEnds>* ends_;
  std::int64_t walked_ = 0;
};

}  // namespace

PipelineEnds WalkPipeline(const WalkedPipeline& pipeline, std::int64_t microbatches) {
  return PipelineWalk(pipeline, microbatches, nullptr).Run();
}

std::vector<ComputeEnds> WalkEveryCompute(const WalkedPipeline& pipeline, std::int64_t microbatches) {
  std::vector<ComputeEnds> ends;
  PipelineWalk(pipeline, microbatches, &ends).Run();
  return ends;
}

}  // namespace autocfg
