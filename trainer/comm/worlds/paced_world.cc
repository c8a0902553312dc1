#include "trainer/comm/worlds/paced_world.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "trainer/comm/group.h"
#include "trainer/comm/waiting.h"

namespace autocfg::trainer {
namespace {

// Staging that the inner world needs to reduce a few numbers.
constexpr std::size_t kStagingElements = 1024;

// The time at which a rank is ready and the modelled duration of the operation on it, or the maxima of both
// over ranks.
using Figures = std::array<double, 2>;

Tensor AsTensor(Figures& figures) {
  return {.data = figures.data(),
          .dtype = DType::kF64,
          .rank = 1,
          .shape = {static_cast<std::int64_t>(figures.size())}};
}

enum class Role { kSender, kReceiver, kReducer };

// One operation: issued, then matched with the other ranks, then timed.
class Transfer {
 public:
  Transfer(Communicator& inner, Role role, int peer, int channel, double issued_s, double seconds)
      : inner_(inner), role_(role), peer_(peer), channel_(channel), issued_s_(issued_s), seconds_(seconds) {}

  const Communicator& inner() const { return inner_; }
  bool started() const { return in_ != nullptr; }

  // Sends this rank's figures to the other ranks. This rank could start at `free_s` unless it was issued
  // later.
  void Start(double free_s, Stream& stream) {
    own_ = {std::max(issued_s_, free_s), seconds_};
    if (role_ == Role::kReducer) {
      others_ = own_;
      in_ = inner_.AllReduce(AsTensor(others_), ReduceOp::kMax, stream);
      return;
    }
    const int from_sender = 2 * channel_, from_receiver = 2 * channel_ + 1;
    const bool sends = role_ == Role::kSender;
    out_ = inner_.Send(AsTensor(own_), peer_, sends ? from_sender : from_receiver, stream);
    in_ = inner_.Recv(AsTensor(others_), peer_, sends ? from_receiver : from_sender, stream);
  }

  // Returns true once all ranks have sent their figures. Requires started().
  bool Met() {
    const bool told = out_ == nullptr || out_->Test();
    return in_->Test() && told;
  }

  // Requires Met().
  PacedTransfer Time() const {
    const double start_s = std::max(own_[0], others_[0]);
    return {start_s, start_s + std::max(own_[1], others_[1])};
  }

 private:
  Communicator& inner_;
  const Role role_;
  const int peer_, channel_;
  const double issued_s_, seconds_;
  Figures own_{}, others_{};
  std::unique_ptr<Work> out_, in_;
};

// The lanes of one rank.
class Lanes {
 public:
  // An operation in a lane, until it has been timed.
  struct Entry {
    Transfer transfer;
    bool done = false;
    double end_s = 0;
  };

  explicit Lanes(PacedClock& clock) : clock_(clock) {}

  PacedClock& clock() const { return clock_; }
  Stream& stream() { return stream_; }

  std::shared_ptr<Entry> Issue(PacedLane lane, Transfer transfer) {
    auto entry = std::make_shared<Entry>(Entry{std::move(transfer)});
    LineOf(lane).push_back(entry);
    Advance();
    return entry;
  }

  // Times every operation that can be timed: the head of each lane, once the other ranks have reached it.
  void Advance() {
    for (int i = 0; i < kPacedLaneCount; ++i) {
      const auto lane = static_cast<PacedLane>(i);
      for (Line& line = LineOf(lane); !line.empty(); line.pop_front()) {
        Entry& head = *line.front();
        if (!head.transfer.started()) head.transfer.Start(clock_.LaneFreeSeconds(lane), stream_);
        if (!head.transfer.Met()) break;
        const PacedTransfer time = head.transfer.Time();
        clock_.Occupy(lane, time);
        head.end_s = time.end_s;
        head.done = true;
      }
    }
  }

  template <typename Done>
  void AdvanceUntil(Done done) {
    for (Idle idle; !done(); idle()) {
      Advance();
      if (done()) return;
    }
  }

  // Drops the operations that a communicator has not completed when it is destroyed.
  void Forget(const Communicator& inner) {
    for (Line& line : lines_) {
      std::erase_if(line, [&](const std::shared_ptr<Entry>& e) { return &e->transfer.inner() == &inner; });
    }
  }

 private:
  using Line = std::deque<std::shared_ptr<Entry>>;
  Line& LineOf(PacedLane lane) { return lines_[static_cast<std::size_t>(lane)]; }

  PacedClock& clock_;
  HostStream stream_;
  std::array<Line, kPacedLaneCount> lines_;  // in order of issue
};

class PacedWork final : public ScopedWork {
 public:
  PacedWork(Lanes& lanes, PacedLane lane, std::shared_ptr<Lanes::Entry> entry)
      : lanes_(lanes), lane_(lane), entry_(std::move(entry)) {}
  ~PacedWork() override {
    if (!entry_->done) WaitUnlessUnwinding();
  }

  void Wait() override {
    lanes_.AdvanceUntil([this] { return entry_->done; });
    if (lane_ == PacedLane::kTensor) {
      lanes_.clock().StreamWaitsUntil(entry_->end_s);
    } else {
      lanes_.clock().HostWaitsUntil(entry_->end_s);
    }
  }

  bool Test() override {
    if (!entry_->done) lanes_.Advance();
    return entry_->done;
  }

 private:
  Lanes& lanes_;
  const PacedLane lane_;
  const std::shared_ptr<Lanes::Entry> entry_;
};

class PacedCommunicator final : public Communicator {
 public:
  PacedCommunicator(CommWorld& inner, CommGroup name, const std::vector<std::int64_t>& ranks, Lanes& lanes)
      : name_(name),
        lanes_(lanes),
        staging_(kStagingElements),
        barrier_staging_(kStagingElements),
        inner_(inner.CreateGroup(name, ranks, AsStaging(staging_))),
        barrier_(inner.CreateGroup(name, ranks, AsStaging(barrier_staging_))) {}
  ~PacedCommunicator() override { lanes_.Forget(*inner_); }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  std::unique_ptr<Work> Run(const CollectiveCall& call, Stream&) override {
    const bool sends = call.kind == CollectiveKind::kSend;
    if (FormOf(call.kind).message && call.channel >= kUserChannels / 2) {
      throw CommError(fmt::format("channel {} is outside 0 to {} of the paced world", call.channel,
                                  kUserChannels / 2 - 1));
    }
    if (size() == 1) return CompleteWork();
    PacedClock& clock = lanes_.clock();
    const double own_s = clock.Seconds(DescOf(call, name_, size()));
    if (FormOf(call.kind).message) {
      return Issue(sends ? PacedLane::kSend : PacedLane::kReceive, sends ? Role::kSender : Role::kReceiver,
                   call.peer, call.channel, own_s);
    }
    if (name_ == CommGroup::kTensor) return Issue(PacedLane::kTensor, Role::kReducer, 0, 0, own_s);
    const double seconds = own_s + (name_ == CommGroup::kWorld ? clock.TakeReductionSeconds() : 0);
    return Issue(PacedLane::kReduce, Role::kReducer, 0, 0, seconds);
  }

  // A reduction within its own group. The lanes need not wait for it: they advance meanwhile.
  void Barrier() override {
    if (size() == 1) return;
    Transfer barrier(*barrier_, Role::kReducer, 0, 0, lanes_.clock().HostSeconds(), 0);
    barrier.Start(0, lanes_.stream());
    lanes_.AdvanceUntil([&] { return barrier.Met(); });
    lanes_.clock().HostWaitsUntil(barrier.Time().end_s);
  }

 private:
  static Tensor AsStaging(std::vector<std::int32_t>& words) {
    return {.data = words.data(),
            .dtype = DType::kI32,
            .rank = 1,
            .shape = {static_cast<std::int64_t>(words.size())}};
  }

  std::unique_ptr<Work> Issue(PacedLane lane, Role role, int peer, int channel, double seconds) {
    Transfer transfer(*inner_, role, peer, channel, lanes_.clock().StreamSeconds(), seconds);
    return std::make_unique<PacedWork>(lanes_, lane, lanes_.Issue(lane, std::move(transfer)));
  }

  const CommGroup name_;
  Lanes& lanes_;
  std::vector<std::int32_t> staging_, barrier_staging_;
  const std::unique_ptr<Communicator> inner_, barrier_;
};

class PacedWorld final : public CommWorld {
 public:
  PacedWorld(std::unique_ptr<CommWorld> inner, PacedClock& clock) : inner_(std::move(inner)), lanes_(clock) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor&) override {
    return std::make_unique<PacedCommunicator>(*inner_, name, ranks, lanes_);
  }

 private:
  const std::unique_ptr<CommWorld> inner_;
  Lanes lanes_;
};

}  // namespace

std::unique_ptr<CommWorld> CreatePacedWorld(std::unique_ptr<CommWorld> inner, PacedClock& clock) {
  return std::make_unique<PacedWorld>(std::move(inner), clock);
}

}  // namespace autocfg::trainer
