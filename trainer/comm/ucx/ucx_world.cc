// Communicators over UCX tagged messages. All-reduces advance whenever an operation of the world is waited
// for or tested.
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/group.h"
#include "trainer/comm/ucx/collectives.h"
#include "trainer/comm/ucx/ucx_group.h"
#include "trainer/comm/waiting.h"

namespace autocfg::trainer {
namespace {

// Up to this size, latency rather than bandwidth bounds an all-reduce.
constexpr std::int64_t kSmallBytes = 16 << 10;

// Staging must hold some elements for each in-flight piece.
constexpr std::int64_t kLeastStagingBytes = 1024;

// Work whose completion `Operation::Done` tells.
template <typename Operation>
class UcxWork final : public ScopedWork {
 public:
  UcxWork(UcxTransport& transport, Operation operation)
      : transport_(transport), operation_(std::move(operation)) {}
  ~UcxWork() override { WaitUnlessUnwinding(); }

  void Wait() override {
    transport_.PollUntil([this] { return operation_.Done(); });
  }

  // Polls as long as that moves something: a long message takes many polls.
  bool Test() override {
    while (!operation_.Done()) {
      if (!transport_.Poll()) return operation_.Done();
    }
    return true;
  }

 private:
  UcxTransport& transport_;
  Operation operation_;
};

struct TaskOperation {
  std::shared_ptr<CollectiveTask> task;
  bool Done() const { return task->done(); }
};

class UcxCommunicator final : public Communicator, public UcxStepper {
 public:
  UcxCommunicator(UcxTransport& transport, std::vector<std::int64_t> ranks, int position,
                  std::vector<std::uint32_t> group_ids, const Tensor& staging)
      : transport_(transport),
        group_(transport, std::move(ranks), position, std::move(group_ids)),
        staging_(staging) {
    transport_.AddStepper(this);
  }
  ~UcxCommunicator() override { transport_.RemoveStepper(this); }

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }

  std::unique_ptr<Work> Run(const CollectiveCall& call, Stream& stream) override {
    CheckReducible(call);
    const Tensor& whole = call.whole;
    const auto bytes = static_cast<std::size_t>(whole.Bytes());
    switch (call.kind) {
      case CollectiveKind::kSend:
        stream.Synchronize();
        return Message(group_.Send(call.peer, call.channel, whole.data, bytes));
      case CollectiveKind::kRecv:
        stream.Synchronize();
        return Message(group_.Recv(call.peer, call.channel, whole.data, bytes));
      case CollectiveKind::kAllReduce:
        return Begin(call, stream, [&] {
          return whole.Bytes() <= std::min(kSmallBytes, staging_.Bytes())
                     ? CreateDoublingAllReduce(group_, whole, call.op, staging_)
                     : CreateRing(group_, call, staging_);
        });
      case CollectiveKind::kReduceScatter:
      case CollectiveKind::kAllGather:
        return Begin(call, stream, [&] { return CreateRing(group_, call, staging_); });
    }
    throw CommError("unknown collective");
  }

  // A dissemination barrier: after round k, each rank has heard, directly or indirectly, from the 2^(k+1)
  // ranks before it.
  void Barrier() override {
    for (int distance = 1; distance < size(); distance *= 2) {
      char in = 0;
      const char out = 0;
      UcxRequest receive = group_.Recv((rank() + size() - distance) % size(), kBarrierChannel, &in, 1);
      UcxRequest send = group_.Send((rank() + distance) % size(), kBarrierChannel, &out, 1);
      transport_.PollUntil([&] { return receive.Done() && send.Done(); });
    }
  }

  bool Step() override {
    bool moved = false;
    while (!tasks_.empty()) {
      moved = tasks_.front()->Step() || moved;
      if (!tasks_.front()->done()) break;
      tasks_.pop_front();
    }
    return moved;
  }

 private:
  template <typename Create>
  std::unique_ptr<Work> Begin(const CollectiveCall& call, Stream& stream, Create create) {
    if (call.whole.Elements() == 0) return CompleteWork();
    if (staging_.data == nullptr || staging_.Bytes() < kLeastStagingBytes) {
      throw CommError(
          fmt::format("a group of {} ranks was created without staging and cannot reduce", size()));
    }
    stream.Synchronize();
    std::shared_ptr<CollectiveTask> task = create();
    tasks_.push_back(task);
    Step();
    return std::make_unique<UcxWork<TaskOperation>>(transport_, TaskOperation{std::move(task)});
  }

  std::unique_ptr<Work> Message(UcxRequest request) {
    return std::make_unique<UcxWork<UcxRequest>>(transport_, std::move(request));
  }

  UcxTransport& transport_;
  UcxGroup group_;
  const Tensor staging_;
  std::deque<std::shared_ptr<CollectiveTask>> tasks_;  // in order of issue; the first is in flight
};

class UcxWorld final : public CommWorld {
 public:
  explicit UcxWorld(Rendezvous& rendezvous)
      : rank_(rendezvous.rank()), size_(rendezvous.size()), groups_with_(rendezvous.size()) {
    if (size_ > 1) transport_.emplace(rendezvous);  // a single rank has no peers
  }

  std::unique_ptr<Communicator> CreateGroup(CommGroup, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    const int position = GroupPosition(ranks, rank_, size_);
    if (ranks.size() == 1) return CreateNullCommunicator(0, 1);
    std::vector<std::uint32_t> ids;
    ids.reserve(ranks.size());
    for (std::int64_t rank : ranks) ids.push_back(groups_with_[rank]++);
    return std::make_unique<UcxCommunicator>(*transport_, ranks, position, std::move(ids), staging);
  }

 private:
  const int rank_;
  const int size_;
  std::vector<std::uint32_t> groups_with_;  // by rank: the number of groups so far that it shares with this
                                            // rank
  std::optional<UcxTransport> transport_;
};

}  // namespace

std::unique_ptr<CommWorld> CreateUcxWorld(Rendezvous& rendezvous) {
  return std::make_unique<UcxWorld>(rendezvous);
}

}  // namespace autocfg::trainer
