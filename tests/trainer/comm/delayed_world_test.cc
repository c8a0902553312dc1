#include <gtest/gtest.h>

#include "tests/conformance/rank_threads.h"

namespace autocfg::trainer {
namespace {

std::unique_ptr<CommWorld> DelayedUcxWorld(Rendezvous& rendezvous) {
  return CreateDelayedWorld(CreateUcxWorld(rendezvous));
}

// A send uses the buffer's content at the time of the wait, so a program that overwrites the buffer earlier
// is detected.
TEST(DelayedWorld, StartsWhenWaitedFor) {
  RunRanks(2, DelayedUcxWorld, [](RankContext& c) {
    Group group(c, CommGroup::kWorld, AllRanks(2));
    Buffer<float> buffer(1, 1.0f);
    auto work = group->AllReduce(buffer.tensor(), ReduceOp::kSum, c.stream);
    buffer.values[0] = 5.0f;
    work->Wait();
    EXPECT_EQ(buffer.values[0], 10.0f);

    Buffer<float> message(1, 1.0f), received(1);
    if (c.rank == 0) {
      auto send = group->Send(message.tensor(), 1, 0, c.stream);
      message.values[0] = 7.0f;
      send->Wait();
    } else {
      group->Recv(received.tensor(), 0, 0, c.stream)->Wait();
      EXPECT_EQ(received.values[0], 7.0f);
    }
  });
}

TEST(DelayedWorld, FailureToStartIsThrownByWait) {
  RunRanks(2, DelayedUcxWorld, [](RankContext& c) {
    Group group(c, CommGroup::kWorld, AllRanks(2));
    Buffer<float> buffer(1);
    Tensor half = buffer.tensor();
    half.dtype = DType::kF16;  // cannot be reduced
    auto work = group->AllReduce(half, ReduceOp::kSum, c.stream);
    EXPECT_THROW(work->Wait(), CommError);
    EXPECT_THROW(work->Wait(), CommError);
  });
}

}  // namespace
}  // namespace autocfg::trainer
