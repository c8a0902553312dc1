#include "search/cost/pipeline_walk.h"

#include <algorithm>
#include <array>
#include <stdexcept>

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

// A rank walks its computes. It waits at one receive at most, since the compute right behind it does; what it sends queues in one lane.
struct Rank {
  double now = 0;
  std::int64_t forwards = 0, backwards = 0;  // done, or at work on
  std::int64_t ahead = 0;                    // forwards before a backward follows each
  std::int64_t outputs = 0;                  // forwards that send
  bool backward_next = false;
  bool entered = false;   // the compute at hand has got past its receive's issue
  bool waiting = false;   // for the message of the compute at hand
  std::int32_t from = 0;  // who sends it
  double issued = 0, arrived = 0;
  double send_free = 0, recv_free = 0;
  std::array<double, 2> output_free{}, gradient_free{};     // when each buffer can be written again
  std::array<bool, 2> output_sending{}, gradient_sending{};  // its send's end is not known yet
  std::array<Send, 5> sends{};                               // never more than the buffers there are
  std::size_t first_send = 0, send_count = 0;
  bool queued = true;
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
      rank.ahead = chunks_ == 1 ? std::min(microbatches, count_ - 1 - r) : InterleavedWarmUp(r, count_, chunks_, microbatches);
      rank.backward_next = false;
    }
  }

  std::vector<double> Run() {
    for (std::int64_t r = count_ - 1; r >= 0; --r) ready_.push_back(r);
    while (!ready_.empty()) {
      const std::int64_t r = ready_.back();
      ready_.pop_back();
      ranks_[static_cast<std::size_t>(r)].queued = false;
      Advance(r);
    }
    std::vector<double> ends;
    for (const Rank& rank : ranks_) {
      if (rank.backwards < total_) throw std::logic_error("a pipeline that does not come to its end");
      ends.push_back(rank.now);
    }
    return ends;
  }

 private:
  std::int64_t ChunkOf(std::int64_t nth) const { return chunks_ == 1 ? 0 : nth % (count_ * chunks_) / count_; }

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
    const std::int64_t stage = ChunkOf(rank.forwards) * count_ + r;
    const bool first = stage == 0, last = stage + 1 == static_cast<std::int64_t>(p_.stages.size());
    if (!first && !Receive(rank, (r + count_ - 1) % count_)) return false;
    const auto buffer = static_cast<std::size_t>(rank.outputs % 2);
    if (!last) {
      if (rank.output_sending[buffer]) return false;
      rank.now = std::max(rank.now, rank.output_free[buffer]);
    }
    rank.now += p_.stages[static_cast<std::size_t>(stage)].forward;
    rank.entered = false;
    ++rank.forwards;
    if (!last) {
      ++rank.outputs;
      rank.output_sending[buffer] = true;
      Issue(r, rank, {.to = static_cast<std::int32_t>((r + 1) % count_), .gradient = false, .buffer = static_cast<std::int32_t>(buffer)});
    }
    return true;
  }

  bool Backward(std::int64_t r, Rank& rank) {
    const std::int64_t stage = (chunks_ - 1 - ChunkOf(rank.backwards)) * count_ + r;
    const bool first = stage == 0, last = stage + 1 == static_cast<std::int64_t>(p_.stages.size());
    const auto buffer = static_cast<std::size_t>(rank.backwards % 2);
    if (!rank.entered) {  // the receive, or on the last stage the backward itself, writes into the buffer
      if (rank.gradient_sending[buffer]) return false;
      rank.now = std::max(rank.now, rank.gradient_free[buffer]);
    }
    if (!last && !Receive(rank, (r + 1) % count_)) return false;
    rank.now += p_.stages[static_cast<std::size_t>(stage)].backward;
    rank.entered = false;
    ++rank.backwards;
    rank.gradient_free[buffer] = rank.now;
    if (!first) {
      rank.gradient_sending[buffer] = true;
      Issue(r, rank, {.to = static_cast<std::int32_t>((r + count_ - 1) % count_), .gradient = true, .buffer = static_cast<std::int32_t>(buffer)});
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

  // The first sends of a rank whose receivers wait for them. Sends of two kinds between the same two ranks (a pipeline of two) are told apart.
  void Transfer(std::int64_t from) {
    Rank& sender = ranks_[static_cast<std::size_t>(from)];
    while (sender.send_count > 0) {
      const Send& send = sender.sends[sender.first_send];
      Rank& receiver = ranks_[static_cast<std::size_t>(send.to)];
      if (!receiver.waiting || receiver.from != from || receiver.backward_next != send.gradient) return;
      const double end = std::max({send.issued, receiver.issued, sender.send_free, receiver.recv_free}) + p_.message_s;
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

std::vector<double> WalkPipeline(const WalkedPipeline& pipeline, std::int64_t microbatches) {
  return Walk(pipeline, microbatches).Run();
}

}  // namespace autocfg
