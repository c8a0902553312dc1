#include "search/cost/pipeline_walk.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "search/schedule/interleaved.h"

namespace autocfg {
namespace {

// A message that its sender has issued and that has not been received.
struct Send {
  std::int32_t to = 0;
  bool gradient = false;
  std::int32_t buffer = 0;
  double issued = 0;
};

// A rank walks its computes. It waits at one receive at most, since the compute right behind it does; what it
// sends queues in one lane.
struct Rank {
  double now = 0;
  std::int64_t before = 0, after = 0;                  // the ranks that messages come from, and go to
  std::int64_t forward_stage = 0, backward_stage = 0;  // of the next one of each
  std::int64_t forwards_left = 0, backwards_left = 0;  // on that stage, of the group at hand
  std::int64_t forwards = 0, backwards = 0;            // done, or at work on
  std::int64_t ahead = 0;                              // forwards before a backward follows each
  std::int64_t outputs = 0;                            // forwards that send
  bool backward_next = false;
  bool entered = false;   // the compute at hand has got past its receive's issue
  bool waiting = false;   // for the message of the compute at hand
  std::int32_t from = 0;  // who sends it
  double issued = 0, arrived = 0;
  double send_free = 0, recv_free = 0;
  std::array<double, 2> output_free{}, gradient_free{};      // when each buffer can be written again
  std::array<bool, 2> output_sending{}, gradient_sending{};  // its send's end is not known yet
  std::array<Send, 5> sends{};                               // never more than the buffers there are
  std::size_t first_send = 0, send_count = 0;
  bool queued = true;
  ComputeEnds ends;
};

class Walk {
 public:
  Walk(const WalkedPipeline& pipeline, std::int64_t microbatches)
      : p_(pipeline),
        count_(static_cast<std::int64_t>(pipeline.begin_s.size())),
        chunks_(static_cast<std::int64_t>(pipeline.stages.size()) / count_),
        total_(microbatches * chunks_),
        ranks_(pipeline.begin_s.size()) {
    for (std::int64_t r = 0; r < count_; ++r) {
      Rank& rank = ranks_[static_cast<std::size_t>(r)];
      rank.now = pipeline.begin_s[static_cast<std::size_t>(r)];
      rank.before = r == 0 ? count_ - 1 : r - 1;
      rank.after = r + 1 == count_ ? 0 : r + 1;
      rank.forward_stage = r;
      rank.backward_stage = (chunks_ - 1) * count_ + r;
      rank.forwards_left = rank.backwards_left = count_;
      rank.ahead = chunks_ == 1 ? std::min(microbatches, count_ - 1 - r)
                                : InterleavedWarmUp(r, count_, chunks_, microbatches);
      rank.ends.forwards.reserve(static_cast<std::size_t>(total_));
      rank.ends.backwards.reserve(static_cast<std::size_t>(total_));
    }
  }

  PipelineRun Run() {
    for (std::int64_t r = count_ - 1; r >= 0; --r) ready_.push_back(r);
    while (!ready_.empty()) {
      const std::int64_t r = ready_.back();
      ready_.pop_back();
      ranks_[static_cast<std::size_t>(r)].queued = false;
      Advance(r);
    }
    PipelineRun run;
    for (Rank& rank : ranks_) {
      if (rank.backwards < total_) throw std::logic_error("a pipeline that does not come to its end");
      run.pipeline_end_s = std::max(run.pipeline_end_s, rank.now);
      run.ranks.push_back(std::move(rank.ends));
    }
    run.step_s = run.pipeline_end_s;
    return run;
  }

 private:
  void Wake(std::int64_t r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.queued) return;
    rank.queued = true;
    ready_.push_back(r);
  }

  // Walks on until the rank waits for another one.
  void Advance(std::int64_t r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    while (rank.backwards < total_) {
      if (rank.backward_next ? !Backward(r, rank) : !Forward(r, rank)) return;
      // In front of a backward stands a forward, as long as there are any, but for the first `ahead`.
      rank.backward_next = rank.forwards == total_ || (!rank.backward_next && rank.forwards > rank.ahead);
    }
  }

  bool Forward(std::int64_t r, Rank& rank) {
    const std::int64_t stage = rank.forward_stage;
    const bool first = stage == 0, last = stage + 1 == static_cast<std::int64_t>(p_.stages.size());
    if (!first && !Receive(rank, rank.before)) return false;
    const auto buffer = static_cast<std::size_t>(rank.outputs % 2);
    if (!last) {
      if (rank.output_sending[buffer]) return false;
      rank.now = std::max(rank.now, rank.output_free[buffer]);
    }
    rank.now += p_.stages[static_cast<std::size_t>(stage)].forward;
    rank.ends.forwards.push_back(rank.now);
    rank.entered = false;
    ++rank.forwards;
    // the group goes on to the rank's next chunk, or the next group comes to its first
    if (--rank.forwards_left == 0) {
      rank.forwards_left = count_;
      rank.forward_stage = stage + count_ < static_cast<std::int64_t>(p_.stages.size()) ? stage + count_ : r;
    }
    if (!last) {
      ++rank.outputs;
      rank.output_sending[buffer] = true;
      Issue(r, rank,
            {.to = static_cast<std::int32_t>(rank.after),
             .gradient = false,
             .buffer = static_cast<std::int32_t>(buffer)});
    }
    return true;
  }

  bool Backward(std::int64_t r, Rank& rank) {
    const std::int64_t stage = rank.backward_stage;
    const bool first = stage == 0, last = stage + 1 == static_cast<std::int64_t>(p_.stages.size());
    const auto buffer = static_cast<std::size_t>(rank.backwards % 2);
    if (!rank.entered) {  // the receive, or on the last stage the backward itself, writes into the buffer
      if (rank.gradient_sending[buffer]) return false;
      rank.now = std::max(rank.now, rank.gradient_free[buffer]);
    }
    if (!last && !Receive(rank, rank.after)) return false;
    rank.now += p_.stages[static_cast<std::size_t>(stage)].backward;
    rank.ends.backwards.push_back(rank.now);
    rank.entered = false;
    ++rank.backwards;
    if (--rank.backwards_left == 0) {
      rank.backwards_left = count_;
      rank.backward_stage = stage >= count_ ? stage - count_ : (chunks_ - 1) * count_ + r;
    }
    rank.gradient_free[buffer] = rank.now;
    if (!first) {
      rank.gradient_sending[buffer] = true;
      Issue(r, rank,
            {.to = static_cast<std::int32_t>(rank.before),
             .gradient = true,
             .buffer = static_cast<std::int32_t>(buffer)});
    }
    return true;
  }

  // Issues the receive of the compute at hand, once; true when it has arrived.
  bool Receive(Rank& rank, std::int64_t from) {
    if (!rank.entered) {
      rank.entered = rank.waiting = true;
      rank.from = static_cast<std::int32_t>(from);
      rank.issued = rank.now;
      Transfer(from);
    }
    if (rank.waiting) return false;
    rank.now = std::max(rank.now, rank.arrived);
    return true;
  }

  void Issue(std::int64_t r, Rank& rank, Send send) {
    send.issued = rank.now;
    rank.sends[(rank.first_send + rank.send_count++) % rank.sends.size()] = send;
    if (rank.send_count == 1) Transfer(r);
  }

  // The first sends of a rank whose receivers wait for them. Sends of two kinds between the same two ranks (a
  // pipeline of two) are told apart.
  void Transfer(std::int64_t from) {
    Rank& sender = ranks_[static_cast<std::size_t>(from)];
    while (sender.send_count > 0) {
      const Send& send = sender.sends[sender.first_send];
      Rank& receiver = ranks_[static_cast<std::size_t>(send.to)];
      if (!receiver.waiting || receiver.from != from || receiver.backward_next != send.gradient) return;
      const double end =
          std::max({send.issued, receiver.issued, sender.send_free, receiver.recv_free}) + p_.message_s;
      sender.send_free = receiver.recv_free = receiver.arrived = end;
      receiver.waiting = false;
      const auto buffer = static_cast<std::size_t>(send.buffer);
      (send.gradient ? sender.gradient_free : sender.output_free)[buffer] = end;
      (send.gradient ? sender.gradient_sending : sender.output_sending)[buffer] = false;
      Wake(send.to);
      Wake(from);
      sender.first_send = (sender.first_send + 1) % sender.sends.size();
      --sender.send_count;
    }
  }

  const WalkedPipeline& p_;
  std::int64_t count_, chunks_, total_;
  std::vector<Rank> ranks_;
  std::vector<std::int64_t> ready_;
};

}  // namespace

PipelineRun WalkPipeline(const WalkedPipeline& pipeline, std::int64_t microbatches) {
  return Walk(pipeline, microbatches).Run();
}

}  // namespace autocfg
