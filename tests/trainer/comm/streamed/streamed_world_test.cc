// Tests the order of queue operations, on a driver that records them, and the failure of a link. The test is
// one rank of two. A host world that completes at once plays the peer's part in the key exchange.
#include "trainer/comm/streamed/streamed_world.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/comm/group.h"

namespace autocfg::trainer {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

struct Journal {
  std::vector<std::string> lines;
  int busy = 0;  // how often a link reports that it is busy after each call
  std::function<void(const std::string& link)> fail;  // if set: called by IsBusy of every link; throws
  std::vector<int> aborted;
  std::function<void()> host_wait;
  HookPace pace = HookPace::kSeldom;
  int events_open = 0;                       // and times
  std::map<std::int64_t, double> reached_s;  // by number of the time

  std::vector<std::string> Take() { return std::exchange(lines, {}); }
};

// The compute queue is 0; the queues of lanes count from 1, as their links do.
class RecordingDriver final : public StreamDriver {
 public:
  explicit RecordingDriver(Journal& journal) : journal_(journal) {}

  QueueId CreateQueue() override { return QueueId{++queues_}; }
  void DestroyQueue(QueueId) noexcept override {}
  QueueId QueueOf(Stream&) override { return QueueId{0}; }
  EventId Record(QueueId queue) override {
    ++journal_.events_open;
    Say("record e{} on q{}", ++events_, Number(queue));
    return EventId{events_};
  }
  void Wait(QueueId queue, EventId event) override { Say("q{} waits for e{}", Number(queue), Number(event)); }
  void Release(EventId) noexcept override { --journal_.events_open; }
  TimeId RecordTime(QueueId queue) override {
    ++journal_.events_open;
    Say("time t{} on q{}", ++times_, Number(queue));
    return TimeId{times_};
  }
  double SecondsBetween(TimeId from, TimeId to) override {
    return journal_.reached_s.at(Number(to)) - journal_.reached_s.at(Number(from));
  }
  void Release(TimeId) noexcept override { --journal_.events_open; }
  std::string NewKey() override { return std::string(kLinkKeyBytes, 'k'); }
  LinkId Join(const std::string&, int rank, int size, LinkUse use, const std::string& name) override {
    Say("join as {} of {} for {}", rank, size, use == LinkUse::kMessages ? "messages" : "reductions");
    busy_[++links_] = journal_.busy;
    names_[links_] = name;
    return LinkId{links_};
  }
  bool IsBusy(LinkId link) override {
    if (journal_.fail) journal_.fail(names_.at(Number(link)));
    int& left = busy_.at(Number(link));
    return left > 0 && left-- > 0;
  }
  void Enqueue(LinkId link, QueueId queue, const CollectiveCall& t) override {
    const char* kind = t.kind == CollectiveKind::kSend   ? "send"
                       : t.kind == CollectiveKind::kRecv ? "recv"
                                                         : "reduce";
    Say("{} {} from {} on q{}", kind, t.whole.Elements(), reinterpret_cast<std::uintptr_t>(t.whole.data),
        Number(queue));
    busy_.at(Number(link)) = journal_.busy;
  }
  void BeginLeave(LinkId link) noexcept override { Say("begin to leave l{}", Number(link)); }
  void Leave(LinkId link) noexcept override { Say("leave l{}", Number(link)); }
  void Abort(LinkId link) noexcept override { journal_.aborted.push_back(static_cast<int>(Number(link))); }
  void SetHostWaitHook(std::function<void()> hook, HookPace pace) override {
    journal_.host_wait = std::move(hook);
    journal_.pace = pace;
  }

 private:
  template <typename Id>
  static std::int64_t Number(Id id) {
    return static_cast<std::int64_t>(id);
  }
  template <typename... T>
  void Say(fmt::format_string<T...> format, T&&... args) {
    journal_.lines.push_back(fmt::format(format, std::forward<T>(args)...));
  }

  Journal& journal_;
  std::int64_t queues_ = 0, events_ = 0, times_ = 0, links_ = 0;
  std::map<std::int64_t, int> busy_;
  std::map<std::int64_t, std::string> names_;
};

class AnyStream final : public Stream {
 public:
  void Synchronize() override { EXPECT_TRUE(may_wait) << "the host waited for a stream"; }
  bool may_wait = false;
};

Tensor At(std::uintptr_t address, std::int64_t elements) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never dereferenced
  return {.data = reinterpret_cast<void*>(address), .dtype = DType::kF32, .rank = 1, .shape = {elements}};
}

class StreamedWorld : public ::testing::Test {
 protected:
  std::unique_ptr<Communicator> Make(CommGroup name, bool reduces) {
    return world_->CreateGroup(name, {0, 1}, reduces ? At(64, 100) : Tensor{});
  }

  Journal journal_;
  std::unique_ptr<CommWorld> world_ =
      CreateStreamedWorld(std::make_unique<RecordingDriver>(journal_), CreateNullWorld(0, 2));
  AnyStream stream_;
};

// Communication waits for compute before it begins. Compute waits for communication at Wait, not earlier.
TEST_F(StreamedWorld, ReductionIsOrderedByEvents) {
  auto group = Make(CommGroup::kData, true);
  auto work = group->AllReduce(At(4096, 600), ReduceOp::kSum, stream_);
  EXPECT_THAT(journal_.Take(),
              ElementsAre("record e1 on q0", "join as 0 of 2 for reductions", "q1 waits for e1",
                          "reduce 600 from 4096 on q1", "record e2 on q1"));
  EXPECT_TRUE(work->Test());
  EXPECT_THAT(journal_.Take(), IsEmpty());
  work->Wait();
  EXPECT_THAT(journal_.Take(), ElementsAre("q0 waits for e2"));
  work->Wait();
  EXPECT_THAT(journal_.Take(), IsEmpty()) << "idempotent";
  work.reset();
  EXPECT_EQ(journal_.events_open, 0);
}

// An operation waits for the compute event recorded at its issue, even if the library accepts it later. Its
// end is recorded only when everything is on the queue.
TEST_F(StreamedWorld, BusyLinkDoesNotChangeTheOrder) {
  journal_.busy = 2;
  auto group = Make(CommGroup::kData, true);
  auto first = group->AllReduce(At(4096, 300), ReduceOp::kSum, stream_);
  auto second = group->AllReduce(At(64, 1), ReduceOp::kMax, stream_);
  EXPECT_THAT(journal_.Take(),
              ElementsAre("record e1 on q0", "join as 0 of 2 for reductions", "record e2 on q0"));
  EXPECT_FALSE(second->Test());
  second->Wait();
  EXPECT_THAT(journal_.Take(),
              ElementsAre("q1 waits for e1", "reduce 300 from 4096 on q1", "record e3 on q1",
                          "q1 waits for e2", "reduce 1 from 64 on q1", "record e4 on q1", "q0 waits for e4"));
  EXPECT_TRUE(first->Test());
  first->Wait();
  EXPECT_THAT(journal_.Take(), ElementsAre("q0 waits for e3"));
}

// Messages keep their order of issue per pair, direction and channel. Messages of different lanes do not wait
// for each other.
TEST_F(StreamedWorld, MessagesHaveALanePerDirectionAndChannel) {
  auto group = Make(CommGroup::kPipeline, false);
  EXPECT_THAT(journal_.Take(), IsEmpty()) << "no unused lane is created";
  std::vector<std::unique_ptr<Work>> works;
  works.push_back(group->Send(At(64, 1), 1, 0, stream_));
  works.push_back(group->Recv(At(128, 2), 1, 1, stream_));
  works.push_back(group->Send(At(192, 3), 1, 0, stream_));
  works.push_back(group->Send(At(256, 4), 1, 1, stream_));
  EXPECT_THAT(journal_.Take(),
              ElementsAre("record e1 on q0", "join as 0 of 2 for messages", "q1 waits for e1",
                          "send 1 from 64 on q1", "record e2 on q1",  //
                          "record e3 on q0", "join as 1 of 2 for messages", "q2 waits for e3",
                          "recv 2 from 128 on q2", "record e4 on q2", "record e5 on q0", "q1 waits for e5",
                          "send 3 from 192 on q1", "record e6 on q1",  //
                          "record e7 on q0", "join as 0 of 2 for messages", "q3 waits for e7",
                          "send 4 from 256 on q3", "record e8 on q3"));
  works.clear();
  EXPECT_THAT(journal_.Take(),
              ElementsAre("q0 waits for e2", "q0 waits for e4", "q0 waits for e6", "q0 waits for e8"));
}

// Waiting for one operation advances the operations of all lanes.
TEST_F(StreamedWorld, WaitingForOneAdvancesTheOthers) {
  journal_.busy = 3;
  auto data = Make(CommGroup::kData, true), pipeline = Make(CommGroup::kPipeline, false);
  auto reduce = data->AllReduce(At(64, 10), ReduceOp::kSum, stream_);
  auto send = pipeline->Send(At(64, 1), 1, 0, stream_);
  send->Wait();
  EXPECT_TRUE(reduce->Test());
}

// A rank begins to leave all links of a group before it waits for the peers at the end of one.
TEST_F(StreamedWorld, LeavesAllLinksOfAGroupTogether) {
  auto group = Make(CommGroup::kPipeline, true);
  group->AllReduce(At(64, 1), ReduceOp::kSum, stream_)->Wait();
  group->Send(At(64, 1), 1, 0, stream_)->Wait();
  group->Recv(At(64, 1), 1, 0, stream_)->Wait();
  journal_.Take();
  group.reset();
  const auto lines = journal_.Take();
  ASSERT_EQ(lines.size(), 6u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_THAT(lines[i], HasSubstr("begin to leave")) << i;
  EXPECT_THAT(journal_.aborted, IsEmpty());
}

// No peer is waited for during stack unwinding.
TEST_F(StreamedWorld, ExceptionAbortsTheLinks) {
  try {
    auto group = Make(CommGroup::kData, true);
    journal_.busy = 1 << 30;
    auto work = group->AllReduce(At(64, 1), ReduceOp::kSum, stream_);
    throw std::runtime_error("its own");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "its own");
  }
  EXPECT_THAT(journal_.aborted, ElementsAre(1));
}

// A failed link ends all links. It is detected by waiting for any operation, or by the host while it waits
// for the device.
TEST_F(StreamedWorld, FailureAbortsAllLinksAndNamesTheGroup) {
  auto data = Make(CommGroup::kData, true), pipeline = Make(CommGroup::kPipeline, false);
  data->AllReduce(At(64, 10), ReduceOp::kSum, stream_)->Wait();
  auto send = pipeline->Send(At(64, 1), 1, 0, stream_);
  journal_.fail = [](const std::string& link) { throw CommError(link + ": remote process exited"); };
  const auto words = [](const auto& run) -> std::string {
    try {
      run();
    } catch (const CommError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string first = words([&] { journal_.host_wait(); });
  EXPECT_THAT(first, HasSubstr("data group of 2 ranks"));
  EXPECT_THAT(first, HasSubstr("remote process exited"));
  EXPECT_THAT(journal_.aborted, ElementsAre(1, 2));
  EXPECT_EQ(words([&] { send->Wait(); }), first);
  EXPECT_EQ(words([&] { send->Test(); }), first);
  EXPECT_EQ(words([&] { data->AllReduce(At(64, 10), ReduceOp::kSum, stream_); }), first);
  EXPECT_EQ(words([&] { pipeline->Recv(At(64, 1), 1, 0, stream_); }), first);
}

// A failure of the rank's own device keeps its type and still ends every link, so that the peers do not wait.
TEST_F(StreamedWorld, DeviceFailureKeepsItsType) {
  auto data = Make(CommGroup::kData, true), pipeline = Make(CommGroup::kPipeline, false);
  data->AllReduce(At(64, 10), ReduceOp::kSum, stream_)->Wait();
  {
    auto send = pipeline->Send(At(64, 1), 1, 0, stream_);
    journal_.fail = [](const std::string& link) { throw DeviceOutOfMemory(-1, 5, link + ": no room"); };
    EXPECT_THROW(journal_.host_wait(), DeviceOutOfMemory);
    EXPECT_THAT(journal_.aborted, ElementsAre(1, 2));
    EXPECT_THROW(send->Wait(), DeviceOutOfMemory);
  }  // destroying works without waiting throws nothing
  EXPECT_THROW(data->AllReduce(At(64, 10), ReduceOp::kSum, stream_), DeviceOutOfMemory);
}

// A host world whose peer reached each collective at a given time.
class PeerWorld final : public CommWorld {
 public:
  explicit PeerWorld(std::vector<double> reached_s) : reached_s_(std::move(reached_s)) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    return std::make_unique<Group>(null_->CreateGroup(name, ranks, staging), reached_s_);
  }

 private:
  class Group final : public Communicator {
   public:
    Group(std::unique_ptr<Communicator> null, const std::vector<double>& reached_s)
        : null_(std::move(null)), reached_s_(reached_s) {}
    int rank() const override { return null_->rank(); }
    int size() const override { return null_->size(); }
    std::unique_ptr<Work> Run(const CollectiveCall& call, Stream& stream) override {
      if (call.kind != CollectiveKind::kAllReduce) return null_->Run(call, stream);
      EXPECT_EQ(call.op, ReduceOp::kMax);
      EXPECT_EQ(call.whole.Elements(), static_cast<std::int64_t>(reached_s_.size()));
      for (std::size_t i = 0; i < reached_s_.size(); ++i)
        call.whole.As<double>()[i] = std::max(call.whole.As<double>()[i], reached_s_[i]);
      return CompleteWork();
    }
    void Barrier() override { null_->Barrier(); }

   private:
    const std::unique_ptr<Communicator> null_;
    const std::vector<double>& reached_s_;
  };

  const std::vector<double> reached_s_;
  const std::unique_ptr<CommWorld> null_ = CreateNullWorld(0, 2);
};

double SteadyNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A collective begins when its lane reaches it, and not before it begins on the peer. Only those issued
// between begin and end are timed. Times of hours: the host's clock, which also counts, is no matter.
TEST_F(StreamedWorld, TimesTheCollectivesOfAStep) {
  constexpr double kHour = 3600, kLate = kHour / 2, kAlmost = kHour / 10;
  // On the peer's clock, which began before this rank's.
  world_ = CreateStreamedWorld(
      std::make_unique<RecordingDriver>(journal_),
      std::make_unique<PeerWorld>(std::vector{kLate + 3 * kHour, kLate + 4 * kHour, kLate + 99 * kHour}));
  auto group = Make(CommGroup::kData, true);
  CollectiveTimes& times = *world_->collective_times();
  EXPECT_THROW(times.Spans(0, 0), std::logic_error);
  journal_.busy = 2;
  auto before = group->AllReduce(At(64, 1), ReduceOp::kSum, stream_);
  EXPECT_THAT(journal_.Take(), ElementsAre("record e1 on q0", "join as 0 of 2 for reductions"));
  stream_.may_wait = true;
  const double origin_s = SteadyNow();
  times.Begin(stream_);
  stream_.may_wait = false;
  EXPECT_THAT(journal_.Take(), Each("time t1 on q0")) << "several times if the host was interrupted";
  EXPECT_EQ(journal_.pace, HookPace::kOften);
  before->Wait();
  EXPECT_THAT(journal_.Take(),
              ElementsAre("q1 waits for e1", "reduce 1 from 64 on q1", "record e2 on q1", "q0 waits for e2"))
      << "it was issued before the step";
  std::vector<std::unique_ptr<Work>> works;
  for (int i = 0; i < 3; ++i) works.push_back(group->AllReduce(At(64, 2), ReduceOp::kSum, stream_));
  works.back()->Wait();
  EXPECT_THAT(journal_.Take(), IsSupersetOf({"q1 waits for e3", "time t2 on q1", "reduce 2 from 64 on q1",
                                             "time t3 on q1", "time t7 on q1"}));
  works.clear();  // their times stay
  times.End();
  EXPECT_EQ(journal_.pace, HookPace::kSeldom);
  group->AllReduce(At(64, 4), ReduceOp::kSum, stream_)->Wait();
  EXPECT_THAT(journal_.Take(), Not(Contains(HasSubstr("time")))) << "after the step";

  for (const auto& [time, hours] :
       {std::pair(1, 100), {2, 101}, {3, 105}, {4, 105}, {5, 106}, {6, 107}, {7, 110}})
    journal_.reached_s[time] = hours * kHour;
  const std::vector<TimeSpan> spans = times.Spans(origin_s, kLate);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_NEAR(spans[0].start_s, 3 * kHour, kAlmost) << "the peer's";
  EXPECT_NEAR(spans[0].end_s, 5 * kHour, kAlmost);
  EXPECT_NEAR(spans[1].start_s, 5 * kHour, kAlmost) << "this rank's";
  EXPECT_NEAR(spans[1].end_s, 6 * kHour, kAlmost);
  EXPECT_EQ(spans[2].start_s, spans[2].end_s) << "clocks that differ";
  EXPECT_NEAR(spans[2].end_s, 10 * kHour, kAlmost);
  before.reset();
  EXPECT_EQ(journal_.events_open, 0);
}

// Messages are hidden by what the program knows of them (search/breakdown/step_breakdown.h).
TEST_F(StreamedWorld, TimesNoMessages) {
  auto group = Make(CommGroup::kPipeline, true);
  stream_.may_wait = true;
  world_->collective_times()->Begin(stream_);
  journal_.Take();
  group->Send(At(64, 1), 1, 0, stream_)->Wait();
  world_->collective_times()->End();
  EXPECT_THAT(world_->collective_times()->Spans(0, 0), IsEmpty());
  EXPECT_THAT(journal_.Take(), Not(Contains(HasSubstr("time"))));
}

// The rank does not wait for its peers if it knows that it has failed.
TEST_F(StreamedWorld, TimesOfAFailedLaneThrow) {
  auto group = Make(CommGroup::kData, true);
  stream_.may_wait = true;
  world_->collective_times()->Begin(stream_);
  group->AllReduce(At(64, 1), ReduceOp::kSum, stream_)->Wait();
  world_->collective_times()->End();
  journal_.fail = [](const std::string& link) { throw CommError(link + ": remote process exited"); };
  EXPECT_THROW(world_->collective_times()->Spans(0, 0), CommError);
}

TEST_F(StreamedWorld, RejectsInvalidOperations) {
  auto group = Make(CommGroup::kPipeline, false);
  EXPECT_THROW(group->AllReduce(At(64, 1), ReduceOp::kSum, stream_), CommError) << "without staging";
  EXPECT_THROW(group->Send(At(64, 1), 0, 0, stream_), CommError);
  EXPECT_THROW(group->Recv(At(64, 1), 2, 0, stream_), CommError);
  EXPECT_THROW(group->Recv(At(64, 1), 1, kUserChannels - 1, stream_), CommError);
  EXPECT_THROW(world_->CreateGroup(CommGroup::kData, {1}, Tensor{}), CommError);
}

TEST_F(StreamedWorld, IgnoresEmptyTensors) {
  auto group = Make(CommGroup::kData, true);
  group->AllReduce(At(64, 0), ReduceOp::kSum, stream_)->Wait();
  group->Send(At(64, 0), 1, 0, stream_)->Wait();
  EXPECT_THAT(journal_.Take(), IsEmpty());
}

}  // namespace
}  // namespace autocfg::trainer
