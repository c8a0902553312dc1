// The part of the contract of CommWorld and Communicator that does not involve data. Every implementation
// runs these tests, whether it moves data or not. Include in one file of a test program and instantiate with
// the cases of communicator_suite.h.
#pragma once

#include "tests/conformance/communicator_suite.h"
#include "trainer/comm/group.h"

namespace autocfg::trainer {

class CommunicatorFormSuite : public CommunicatorSuite {
 protected:
  // Returns whether the operation throws CommError, when issued or when waited for.
  template <typename Issue>
  static bool IsRefused(const Issue& issue) {
    try {
      issue()->Wait();
    } catch (const CommError&) {
      return true;
    }
    return false;
  }
};

TEST_P(CommunicatorFormSuite, KnowsItsRankInEveryGroup) {
  Run([](RankContext& c) {
    Group all(c, CommGroup::kWorld, AllRanks(c.size));
    EXPECT_EQ(all->rank(), c.rank);
    EXPECT_EQ(all->size(), c.size);
    Group alone(c, CommGroup::kTensor, {c.rank});
    EXPECT_EQ(alone->rank(), 0);
    EXPECT_EQ(alone->size(), 1);
    std::vector<std::int64_t> alternate;  // every other rank, the even or the odd ones
    for (std::int64_t r = c.rank % 2; r < c.size; r += 2) alternate.push_back(r);
    Group half(c, CommGroup::kData, alternate);
    EXPECT_EQ(half->rank(), c.rank / 2);
    EXPECT_EQ(half->size(), static_cast<int>(alternate.size()));
  });
}

TEST_P(CommunicatorFormSuite, RejectsInvalidGroups) {
  Run([](RankContext& c) {
    const auto refused = [&](const std::vector<std::int64_t>& ranks) {
      try {
        Group group(c, CommGroup::kData, ranks);
      } catch (const CommError&) {
        return true;
      }
      return false;
    };
    EXPECT_TRUE(refused({})) << "without this rank";
    EXPECT_TRUE(refused({c.rank, c.size})) << "a rank that the job does not have";
    EXPECT_TRUE(refused({-1, c.rank}));
    EXPECT_TRUE(refused({c.rank, c.rank})) << "not ascending";
    EXPECT_TRUE(refused({(c.rank + 1) % (c.size + 1)})) << "another rank's";
  });
}

TEST_P(CommunicatorFormSuite, RejectsInvalidPeersAndChannels) {
  Run([](RankContext& c) {
    Group group(c, CommGroup::kPipeline, AllRanks(c.size));
    Buffer<float> f(3);
    const int other = (c.rank + 1) % c.size;
    for (const int peer : {-1, c.rank, c.size}) {
      EXPECT_TRUE(IsRefused([&] { return group->Send(f.tensor(), peer, 0, c.stream); })) << peer;
      EXPECT_TRUE(IsRefused([&] { return group->Recv(f.tensor(), peer, 0, c.stream); })) << peer;
    }
    for (const int channel : {-1, kUserChannels}) {
      EXPECT_TRUE(IsRefused([&] { return group->Send(f.tensor(), other, channel, c.stream); })) << channel;
      EXPECT_TRUE(IsRefused([&] { return group->Recv(f.tensor(), other, channel, c.stream); })) << channel;
    }
    group->Barrier();  // still works afterwards
  });
}

// Tensors of any shape, including empty ones. Operations are waited for in another order than issued, more
// than once, or not at all.
TEST_P(CommunicatorFormSuite, OperationsComplete) {
  Run([](RankContext& c) {
    Group group(c, CommGroup::kData, AllRanks(c.size));
    const int right = (c.rank + 1) % c.size, left = (c.rank + c.size - 1) % c.size;
    for (const std::int64_t rows : {0, 1, 5, 3000}) {
      Buffer<float> reduced(rows * 4), left_alone(rows * 4), out(rows * 4), in(rows * 4);
      const auto matrix = [&](Buffer<float>& buffer) {
        Tensor tensor = buffer.tensor();
        tensor.rank = 2;
        tensor.shape = {rows, 4};
        return tensor;
      };
      std::vector<std::unique_ptr<Work>> works;
      works.push_back(group->AllReduce(matrix(reduced), ReduceOp::kSum, c.stream));
      if (c.size > 1) {
        works.push_back(group->Send(matrix(out), right, 1, c.stream));
        works.push_back(group->Recv(matrix(in), left, 1, c.stream));
      }
      group->AllReduce(matrix(left_alone), ReduceOp::kMax, c.stream).reset();
      std::reverse(works.begin(), works.end());
      WaitForAll(works);
      for (const auto& work : works) {
        work->Wait();
        EXPECT_TRUE(work->Test());
      }
    }
  });
}

// A group is destroyed before its world, and another of the same name replaces it.
TEST_P(CommunicatorFormSuite, GroupsCanBeRecreated) {
  Run([](RankContext& c) {
    for (int round = 0; round < 3; ++round) {
      Group group(c, CommGroup::kData, AllRanks(c.size));
      Buffer<float> buffer(7);
      group->AllReduce(buffer.tensor(), ReduceOp::kSum, c.stream)->Wait();
      group->Barrier();
    }
  });
}

}  // namespace autocfg::trainer
