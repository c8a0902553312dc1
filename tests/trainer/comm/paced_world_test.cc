// Tests the rules of virtual time among ranks one by one. tests/trainer/paced_test.cc compares whole steps
// with the simulator.
#include "trainer/comm/worlds/paced_world.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/conformance/rank_threads.h"

namespace autocfg::trainer {
namespace {

constexpr double kMessage = 4, kSum = 2;

// An element of a message takes 4 s, an element of a sum 2 s, and a fill 1 s per element.
double Seconds(const OpDesc& op) {
  switch (op.kind) {
    case OpKind::kSend:
    case OpKind::kRecv: return kMessage * static_cast<double>(op.dims[0]);
    case OpKind::kAllReduceSum: return kSum * static_cast<double>(op.dims[0]);
    case OpKind::kReduceScatter:
    case OpKind::kAllGather: return kSum / 2 * static_cast<double>(op.dims[0]);
    case OpKind::kFill:
    case OpKind::kSumOfSquares: return static_cast<double>(op.dims[0]);
    default: throw std::out_of_range("no time of " + ToString(op));
  }
}

OpDesc Fill(std::int64_t seconds) { return {.kind = OpKind::kFill, .dims = {seconds}}; }

Tensor Nowhere(std::int64_t n) { return {.rank = 1, .shape = {n}}; }

struct PacedRank {
  int rank;
  PacedClock& clock;
  CommWorld& world;
  Stream& stream;

  std::unique_ptr<Communicator> Group(CommGroup name, const std::vector<std::int64_t>& ranks) {
    return world.CreateGroup(name, ranks, Tensor{});
  }
};

void RunPaced(int size, const std::function<void(PacedRank&)>& body) {
  RunRanks(size, CreateUcxWorld, [&](RankContext& c) {
    struct Borrowed final : CommWorld {
      explicit Borrowed(CommWorld& w) : world(w) {}
      std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                                const Tensor& staging) override {
        return world.CreateGroup(name, ranks, staging);
      }
      CommWorld& world;
    };
    PacedClock clock(Seconds);
    const auto world = CreatePacedWorld(std::make_unique<Borrowed>(c.world), clock);
    PacedRank rank{c.rank, clock, *world, c.stream};
    body(rank);
  });
}

TEST(PacedWorld, MessageStartsWhenBothSidesHaveIssuedIt) {
  RunPaced(2, [](PacedRank& r) {
    auto group = r.Group(CommGroup::kPipeline, {0, 1});
    r.clock.Record(Fill(r.rank == 0 ? 3 : 10));
    if (r.rank == 0) {
      auto send = group->Send(Nowhere(1), 1, 0, r.stream);
      while (!send->Test()) {
      }
      EXPECT_EQ(r.clock.HostSeconds(), 0) << "only waiting advances the host";
      send->Wait();
    } else {
      group->Recv(Nowhere(1), 0, 0, r.stream)->Wait();
    }
    EXPECT_EQ(r.clock.HostSeconds(), 14);
    EXPECT_EQ(r.clock.transfers(r.rank == 0 ? PacedLane::kSend : PacedLane::kReceive).front().start_s, 10);
  });
}

// The two sides model different times for a message; the larger one applies to both.
TEST(PacedWorld, LargerOfBothTimesApplies) {
  RunPaced(2, [](PacedRank& r) {
    auto group = r.Group(CommGroup::kPipeline, {0, 1});
    auto work =
        r.rank == 0 ? group->Send(Nowhere(1), 1, 0, r.stream) : group->Recv(Nowhere(3), 0, 0, r.stream);
    work->Wait();
    EXPECT_EQ(r.clock.HostSeconds(), 12);
  });
}

// Rank 0's messages run one after another in its send lane, though they go to different ranks on different
// channels. A receive runs concurrently.
TEST(PacedWorld, LanesRunInOrderAndConcurrently) {
  RunPaced(3, [](PacedRank& r) {
    auto group = r.Group(CommGroup::kPipeline, {0, 1, 2});
    if (r.rank == 0) {
      auto first = group->Send(Nowhere(1), 1, 0, r.stream);
      auto second = group->Send(Nowhere(1), 2, 1, r.stream);
      auto received = group->Recv(Nowhere(1), 2, 0, r.stream);
      received->Wait();
      EXPECT_EQ(r.clock.HostSeconds(), 4);
      second->Wait();
      EXPECT_EQ(r.clock.HostSeconds(), 9 + 4 + 4) << "the second waits for the first, which waits for rank 1";
      first->Wait();
      EXPECT_EQ(r.clock.HostSeconds(), 9 + 4 + 4);
      EXPECT_EQ(r.clock.transfers(PacedLane::kSend).size(), 2u);
    } else if (r.rank == 1) {
      r.clock.Record(Fill(9));
      group->Recv(Nowhere(1), 0, 0, r.stream)->Wait();
    } else {
      auto sent = group->Send(Nowhere(1), 0, 0, r.stream);
      group->Recv(Nowhere(1), 0, 1, r.stream)->Wait();
      sent->Wait();
    }
  });
}

// Waiting for one operation advances all: each rank first waits for the operation that the other issued last.
TEST(PacedWorld, WaitingForOneAdvancesAll) {
  RunPaced(2, [](PacedRank& r) {
    auto group = r.Group(CommGroup::kPipeline, {0, 1});
    const int peer = 1 - r.rank;
    auto received = group->Recv(Nowhere(1), peer, 1, r.stream);
    r.clock.Record(Fill(r.rank == 0 ? 1 : 2));
    auto sent = group->Send(Nowhere(1), peer, 1, r.stream);
    (r.rank == 0 ? sent : received)->Wait();
    (r.rank == 0 ? received : sent)->Wait();
    EXPECT_EQ(r.clock.HostSeconds(), 6);
  });
}

TEST(PacedWorld, ReductionsStartWhenTheLastRankArrives) {
  RunPaced(4, [](PacedRank& r) {
    auto world = r.Group(CommGroup::kWorld, AllRanks(4));
    auto data = r.Group(CommGroup::kData,
                        r.rank % 2 == 0 ? std::vector<std::int64_t>{0, 2} : std::vector<std::int64_t>{1, 3});
    r.clock.Record(Fill(10 * (r.rank + 1)));
    data->AllReduce(Nowhere(3), ReduceOp::kSum, r.stream)->Wait();
    EXPECT_EQ(r.clock.HostSeconds(), r.rank % 2 == 0 ? 36 : 46);
    r.clock.Record({.kind = OpKind::kSumOfSquares, .dims = {5 + r.rank}});
    EXPECT_EQ(r.clock.StreamSeconds(), r.rank % 2 == 0 ? 36 : 46) << "part of the reduction that follows";
    world->AllReduce(Nowhere(1), ReduceOp::kSum, r.stream)->Wait();
    EXPECT_EQ(r.clock.HostSeconds(), 46 + 8 + 2);
    r.clock.Record({.kind = OpKind::kSumOfSquares, .dims = {7}});
    r.clock.Synchronize();
    EXPECT_EQ(r.clock.HostSeconds(), 56 + 7) << "no reduction followed";
  });
}

TEST(PacedWorld, ScattersAndGathersTakeTheirOwnTimes) {
  RunPaced(2, [](PacedRank& r) {
    auto data = r.Group(CommGroup::kData, {0, 1});
    auto scattered = data->ReduceScatter(Nowhere(4), Nowhere(2), ReduceOp::kSum, r.stream);
    auto gathered = data->AllGather(Nowhere(3), Nowhere(6), r.stream);
    gathered->Wait();
    EXPECT_EQ(r.clock.HostSeconds(), 4 + 6) << "one after the other in the lane of reductions";
    scattered->Wait();
    EXPECT_EQ(r.clock.transfers(PacedLane::kReduce).size(), 2u);
    EXPECT_THROW((void)data->AllGather(Nowhere(3), Nowhere(3), r.stream), CommError);
    auto tensor = r.Group(CommGroup::kTensor, {0, 1});
    tensor->ReduceScatter(Nowhere(2), Nowhere(1), ReduceOp::kSum, r.stream)->Wait();
    tensor->AllGather(Nowhere(1), Nowhere(2), r.stream)->Wait();
    EXPECT_EQ(r.clock.StreamSeconds(), 10 + 2 + 2);
    EXPECT_EQ(r.clock.transfers(PacedLane::kReduce).size(), 2u) << "those of tensor groups are compute";
  });
}

TEST(PacedWorld, TensorReductionsRunOnTheStream) {
  RunPaced(2, [](PacedRank& r) {
    auto group = r.Group(CommGroup::kTensor, {0, 1});
    r.clock.Record(Fill(r.rank == 0 ? 3 : 5));
    group->AllReduce(Nowhere(2), ReduceOp::kSum, r.stream)->Wait();
    r.clock.Record(Fill(1));
    EXPECT_EQ(r.clock.HostSeconds(), 0);
    EXPECT_EQ(r.clock.StreamSeconds(), 5 + 4 + 1);
    EXPECT_TRUE(r.clock.transfers(PacedLane::kReduce).empty());
  });
}

// The barrier comes during a reduction that one rank has not reached. It must not match that reduction.
TEST(PacedWorld, BarrierAlignsHosts) {
  RunPaced(3, [](PacedRank& r) {
    auto group = r.Group(CommGroup::kWorld, AllRanks(3));
    auto pair = r.rank < 2 ? r.Group(CommGroup::kData, {0, 1}) : nullptr;
    std::unique_ptr<Work> of_pair, of_all;
    if (pair != nullptr) of_pair = pair->AllReduce(Nowhere(50), ReduceOp::kSum, r.stream);
    of_all = group->AllReduce(Nowhere(1), ReduceOp::kSum, r.stream);
    r.clock.HostWaitsUntil(r.rank == 1 ? 17 : 1);
    group->Barrier();
    EXPECT_EQ(r.clock.HostSeconds(), 17);
    of_all->Wait();
    EXPECT_EQ(r.clock.HostSeconds(), 102);
    if (of_pair != nullptr) of_pair->Wait();
    group->Barrier();
    r.clock.Restart();
    EXPECT_EQ(r.clock.HostSeconds(), 0);
    EXPECT_TRUE(r.clock.transfers(PacedLane::kReduce).empty());
  });
}

TEST(PacedWorld, SingleRankNeverWaits) {
  PacedClock clock(Seconds);
  auto world = CreatePacedWorld(CreateNullWorld(1, 4), clock);
  auto pipeline = world->CreateGroup(CommGroup::kPipeline, {0, 1, 2, 3}, Tensor{});
  auto alone = world->CreateGroup(CommGroup::kData, {1}, Tensor{});
  HostStream stream;
  pipeline->Recv(Nowhere(1), 0, 0, stream)->Wait();
  clock.Record(Fill(5));
  pipeline->Send(Nowhere(2), 2, 0, stream)->Wait();
  alone->AllReduce(Nowhere(1000), ReduceOp::kSum, stream)->Wait();
  pipeline->Barrier();
  EXPECT_EQ(clock.HostSeconds(), 4 + 5 + 8);
}

TEST(PacedWorld, RejectsInvalidOperations) {
  PacedClock clock(Seconds);
  auto world = CreatePacedWorld(CreateNullWorld(0, 2), clock);
  auto group = world->CreateGroup(CommGroup::kPipeline, {0, 1}, Tensor{});
  HostStream stream;
  EXPECT_THROW(group->AllReduce(Nowhere(1), ReduceOp::kMax, stream), std::out_of_range)
      << "an op without a time";
  EXPECT_THROW(group->Send(Nowhere(1), 0, 0, stream), CommError);
  EXPECT_THROW(group->Recv(Nowhere(1), 1, 30, stream), CommError);
  EXPECT_THROW(clock.Record({.kind = OpKind::kRope}), std::out_of_range);
}

}  // namespace
}  // namespace autocfg::trainer
