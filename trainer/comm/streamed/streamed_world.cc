#include "trainer/comm/streamed/streamed_world.h"

#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "trainer/comm/group.h"
#include "trainer/comm/streamed/lane.h"
#include "trainer/comm/streamed/lane_times.h"
#include "trainer/comm/streamed/lanes.h"
#include "trainer/comm/waiting.h"

namespace autocfg::trainer {
namespace {

// The last channel of the host group carries the keys of reductions. The key of a message lane uses the
// message's own channel.
constexpr int kReductionChannel = kUserChannels - 1;

constexpr std::int64_t kHostStagingBytes = 4096;  // for barriers, and for times of collectives in parts

class StreamedWork final : public ScopedWork {
 public:
  StreamedWork(Lanes& lanes, std::shared_ptr<LaneOperation> operation, QueueId compute)
      : lanes_(lanes), operation_(std::move(operation)), compute_(compute) {}
  // Ignores a failure of the lane, since later operations rethrow it.
  ~StreamedWork() override { WaitUnlessUnwinding<std::exception>(); }

  void Wait() override {
    if (waited_) return;
    for (Idle idle; !Test(); idle()) {
    }
    lanes_.driver().Wait(compute_, *operation_->done());
    waited_ = true;
  }

  bool Test() override {
    lanes_.Step();
    return operation_->done().has_value();
  }

 private:
  Lanes& lanes_;
  const std::shared_ptr<LaneOperation> operation_;
  const QueueId compute_;
  bool waited_ = false;
};

// A lane registered with the world, which advances it.
class WorldLane {
 public:
  WorldLane(Lanes& lanes, Communicator& host, std::vector<int> ranks, int rank, int channel, LinkUse use,
            std::string name)
      : lanes_(lanes), lane_(lanes.driver(), host, std::move(ranks), rank, channel, use, std::move(name)) {
    lanes_.Add(&lane_);
  }
  ~WorldLane() { lanes_.Remove(&lane_); }
  void BeginLeave() noexcept { lane_.BeginLeave(); }
  WorldLane(const WorldLane&) = delete;
  WorldLane& operator=(const WorldLane&) = delete;

  std::unique_ptr<Work> Issue(const CollectiveCall& call, Stream& stream) {
    const QueueId compute = lanes_.driver().QueueOf(stream);
    std::shared_ptr<LaneOperation> operation = lane_.Issue(call, compute);
    lanes_.Step();
    return std::make_unique<StreamedWork>(lanes_, std::move(operation), compute);
  }

  Lane& lane() { return lane_; }

 private:
  Lanes& lanes_;
  Lane lane_;
};

class StreamedCommunicator final : public Communicator {
 public:
  StreamedCommunicator(Lanes& lanes, LaneTimes& times, CommWorld& host, CommGroup name,
                       const std::vector<std::int64_t>& ranks, bool reduces)
      : lanes_(lanes), times_(times), name_(name), ranks_(ranks), host_staging_(kHostStagingBytes) {
    const Tensor staging{
        .data = host_staging_.data(), .dtype = DType::kI32, .rank = 1, .shape = {kHostStagingBytes / 4}};
    host_ = host.CreateGroup(name, ranks, staging);
    if (!reduces) return;
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    reductions_ = std::make_unique<WorldLane>(lanes, *host_, std::move(all), rank(), kReductionChannel,
                                              LinkUse::kReductions,
                                              fmt::format("{} group of {} ranks", Name(name), size()));
    times_.Add(reductions_->lane(), *host_);
  }

  ~StreamedCommunicator() override {
    if (reductions_ != nullptr) {
      times_.Remove(reductions_->lane());
      reductions_->BeginLeave();
    }
    for (const auto& [key, lane] : messages_) lane->BeginLeave();
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  std::unique_ptr<Work> Run(const CollectiveCall& call, Stream& stream) override {
    CheckReducible(call);
    if (FormOf(call.kind).message) return Message(call, stream);
    if (call.whole.Elements() == 0) return CompleteWork();
    if (reductions_ == nullptr)
      throw CommError(
          fmt::format("a group of {} ranks was created without staging and cannot reduce", size()));
    return reductions_->Issue(call, stream);
  }

  void Barrier() override {
    std::int32_t came = 1;
    HostStream ready;
    const auto work = host_->AllReduce({.data = &came, .dtype = DType::kI32, .rank = 1, .shape = {1}},
                                       ReduceOp::kSum, ready);
    for (Idle idle; !work->Test(); idle()) lanes_.Step();
  }

 private:
  std::unique_ptr<Work> Message(const CollectiveCall& call, Stream& stream) {
    if (call.channel == kReductionChannel)
      throw CommError(fmt::format("channel {} is outside 0 to {}", call.channel, kReductionChannel - 1));
    if (call.whole.Elements() == 0) return CompleteWork();
    const bool sends = call.kind == CollectiveKind::kSend;
    std::unique_ptr<WorldLane>& lane = messages_[{call.peer, call.channel, sends}];
    if (lane == nullptr) {
      const int from = sends ? rank() : call.peer, to = sends ? call.peer : rank();
      lane = std::make_unique<WorldLane>(
          lanes_, *host_, std::vector<int>{from, to}, sends ? 0 : 1, call.channel, LinkUse::kMessages,
          fmt::format("{} group, messages from rank {} to rank {}", Name(name_),
                      ranks_[static_cast<std::size_t>(from)], ranks_[static_cast<std::size_t>(to)]));
    }
    CollectiveCall on_link = call;
    on_link.peer = sends ? 1 : 0;
    return lane->Issue(on_link, stream);
  }

  Lanes& lanes_;
  LaneTimes& times_;
  const CommGroup name_;
  const std::vector<std::int64_t> ranks_;
  std::vector<char> host_staging_;
  std::unique_ptr<Communicator> host_;
  std::unique_ptr<WorldLane> reductions_;  // null: created without staging
  // by peer, channel and whether this rank sends
  std::map<std::tuple<int, int, bool>, std::unique_ptr<WorldLane>> messages_;
};

class StreamedWorld final : public CommWorld {
 public:
  StreamedWorld(std::unique_ptr<StreamDriver> driver, std::unique_ptr<CommWorld> host)
      : host_(std::move(host)), lanes_(std::move(driver)) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    if (ranks.size() == 1) return host_->CreateGroup(name, ranks, Tensor{});
    return std::make_unique<StreamedCommunicator>(lanes_, times_, *host_, name, ranks,
                                                  staging.data != nullptr);
  }

  CollectiveTimes* collective_times() override { return &times_; }

 private:
  const std::unique_ptr<CommWorld> host_;
  Lanes lanes_;
  LaneTimes times_{lanes_};
};

}  // namespace

std::unique_ptr<CommWorld> CreateStreamedWorld(std::unique_ptr<StreamDriver> driver,
                                               std::unique_ptr<CommWorld> host) {
  return std::make_unique<StreamedWorld>(std::move(driver), std::move(host));
}

}  // namespace autocfg::trainer
