// Tests UCX over host memory. Ranks are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/conformance/rank_threads.h"

// A rank that fails leaves UCX's allocations until the process ends; AddressSanitizer would report them as
// leaks.
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the name that LeakSanitizer calls
extern "C" const char* __lsan_default_suppressions() { return "leak:libucs\nleak:libuct\nleak:libucp\n"; }

namespace autocfg::trainer {
namespace {

// An issued all-reduce advances while this rank waits for another operation that depends on it.
TEST(UcxWorld, WaitingForOneAdvancesTheOthers) {
  RunRanks(2, CreateUcxWorld, [](RankContext& c) {
    Group group(c, CommGroup::kWorld, AllRanks(2));
    Buffer<float> sum(500000, 1.0f), message(50000, 3.0f), received(50000);
    auto reduce = group->AllReduce(sum.tensor(), ReduceOp::kSum, c.stream);
    if (c.rank == 0) {
      group->Send(message.tensor(), 1, 0, c.stream)->Wait();
    } else {
      reduce->Wait();  // needs rank 0, which waits to send
      group->Recv(received.tensor(), 0, 0, c.stream)->Wait();
      EXPECT_EQ(received.values.back(), 3.0f);
    }
    reduce->Wait();
    EXPECT_EQ(sum.values.back(), 2.0f);
  });
}

TEST(UcxWorld, UnequalSizesNameThePeer) {
  for (std::int64_t sent : {10, 30}) {
    RunRanks(2, CreateUcxWorld, [&](RankContext& c) {
      Group group(c, CommGroup::kPipeline, AllRanks(2));
      Buffer<float> out(sent), in(20);
      if (c.rank == 0) {
        group->Send(out.tensor(), 1, 0, c.stream)->Wait();
      } else {
        auto work = group->Recv(in.tensor(), 0, 0, c.stream);
        try {
          work->Wait();
          ADD_FAILURE() << "a message of " << sent << " elements was taken for one of 20";
        } catch (const CommError& error) {
          EXPECT_NE(std::string(error.what()).find("rank 0"), std::string::npos) << error.what();
        }
      }
    });
  }
}

TEST(UcxWorld, RejectsInvalidOperations) {
  RunRanks(2, CreateUcxWorld, [](RankContext& c) {
    Group group(c, CommGroup::kPipeline, AllRanks(2));
    Buffer<float> buffer(4);
    Tensor half = buffer.tensor();
    half.dtype = DType::kF16;
    EXPECT_THROW(group->AllReduce(half, ReduceOp::kSum, c.stream), CommError);
    EXPECT_THROW(group->Send(buffer.tensor(), c.rank, 0, c.stream), CommError);
    EXPECT_THROW(group->Send(buffer.tensor(), 2, 0, c.stream), CommError);
    EXPECT_THROW(group->Recv(buffer.tensor(), 1 - c.rank, -1, c.stream), CommError);
    auto bare = c.world.CreateGroup(CommGroup::kPipeline, AllRanks(2), Tensor{});
    EXPECT_THROW(bare->AllReduce(buffer.tensor(), ReduceOp::kSum, c.stream), CommError);
    EXPECT_THROW(c.world.CreateGroup(CommGroup::kData, {1 - c.rank}, Tensor{}), CommError);
    EXPECT_THROW(c.world.CreateGroup(CommGroup::kData, {1, 0}, Tensor{}), CommError);
    EXPECT_THROW(c.world.CreateGroup(CommGroup::kData, {0, 1, 2}, Tensor{}), CommError);
    bare->Barrier();
  });
}

// A rank that finished long ago stays until a late peer has connected and received its message.
TEST(UcxWorld, WaitsForLatePeers) {
  RunRanks(3, CreateUcxWorld, [](RankContext& c) {
    Group group(c, CommGroup::kPipeline, AllRanks(3));
    Buffer<float> buffer(100, static_cast<float>(c.rank));
    if (c.rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      group->Recv(buffer.tensor(), 0, 0, c.stream)->Wait();
      EXPECT_EQ(buffer.values[99], 0.0f);
    } else if (c.rank == 0) {
      group->Send(buffer.tensor(), 2, 0, c.stream)->Wait();
    }
  });
}

// A rank that fails in the middle leaves with its own error, though its peer never does its part.
TEST(UcxWorld, ExceptionDoesNotWaitForThePeer) {
  std::atomic<bool> out{false};
  RunRanks(2, CreateUcxWorld, [&](RankContext& c) {
    if (c.rank == 1) {
      while (!out) std::this_thread::yield();
      return;
    }
    Buffer<float> buffer(100000), other(100000);
    try {
      Group group(c, CommGroup::kPipeline, AllRanks(2));
      auto receive = group->Recv(buffer.tensor(), 1, 0, c.stream);
      auto reduce = group->AllReduce(other.tensor(), ReduceOp::kSum, c.stream);
      throw std::runtime_error("its own");
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "its own");
    }
    out = true;
  });
}

}  // namespace
}  // namespace autocfg::trainer
