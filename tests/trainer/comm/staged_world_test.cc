// Tests host communication for a device whose memory the host cannot access. Ranks are threads.
#include <gtest/gtest.h>

#include <stdexcept>

#include "search/ops/memory_sizes.h"
#include "tests/conformance/rank_threads.h"
#include "tests/support/remote_device.h"

namespace autocfg::trainer {
namespace {

// One rank's device and its staged world.
struct Remote {
  explicit Remote(Rendezvous& rendezvous) : world(CreateStagedWorld(CreateUcxWorld(rendezvous), device)) {}
  Tensor New(std::int64_t n) {
    return {.data = device.Allocate(n * 4), .dtype = DType::kF32, .rank = 1, .shape = {n}};
  }
  void Put(const Tensor& t, float value) {
    const std::vector<float> values(static_cast<std::size_t>(t.Elements()), value);
    device.CopyFromHost(t.data, values.data(), t.Bytes(), *stream);
  }
  std::vector<float> Get(const Tensor& t) {
    std::vector<float> values(static_cast<std::size_t>(t.Elements()), -1.0f);
    device.CopyToHost(values.data(), t.data, t.Bytes(), *stream);
    stream->Synchronize();
    return values;
  }

  RemoteDevice device;
  std::unique_ptr<Stream> stream = device.CreateStream();
  std::unique_ptr<CommWorld> world;
};

void OnTwoRanks(const std::function<void(int rank, Remote&)>& body) {
  auto endpoints = CreateLocalRendezvous(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Remote remote(*endpoints[static_cast<std::size_t>(rank)]);
      body(rank, remote);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A send carries the result of work issued before it. Work issued before a receive does not overwrite the
// received data, and work issued after the wait sees it, although the host has not waited.
TEST(StagedWorld, KeepsStreamOrder) {
  OnTwoRanks([](int rank, Remote& r) {
    auto group = r.world->CreateGroup(CommGroup::kPipeline, AllRanks(2), Tensor{});
    const Tensor tensor = r.New(1000), copy = r.New(1000);
    RemoteOps ops(r.device);
    if (rank == 0) {
      r.Put(tensor, 1);
      ops.Fill(tensor, 7, *r.stream);
      auto work = group->Send(tensor, 1, 0, *r.stream);
      work->Wait();
      ops.Fill(tensor, 8, *r.stream);  // too late to be sent
      EXPECT_EQ(r.Get(tensor).back(), 8);
    } else {
      ops.Fill(tensor, 5, *r.stream);
      ops.Fill(copy, 0, *r.stream);
      group->Recv(tensor, 0, 0, *r.stream)->Wait();
      ops.ResidualAdd({.data = copy.data, .dtype = DType::kF32, .rank = 2, .shape = {1, 1000}},
                      {.data = tensor.data, .dtype = DType::kF32, .rank = 2, .shape = {1, 1000}}, *r.stream);
      EXPECT_EQ(r.Get(copy), std::vector<float>(1000, 7));
    }
    group->Barrier();
    r.device.Free(tensor.data, tensor.Bytes());
    r.device.Free(copy.data, copy.Bytes());
  });
}

// Several pieces, after a reduction of the same group that is waited for later.
TEST(StagedWorld, ReducesTensorsLargerThanTheStaging) {
  OnTwoRanks([](int rank, Remote& r) {
    const Tensor staging = r.New(kCollectiveStagingBytes / 4), small = r.New(3),
                 large = r.New((40 << 20) / 4 + 7);
    {
      auto group = r.world->CreateGroup(CommGroup::kData, AllRanks(2), staging);
      r.Put(small, static_cast<float>(rank));
      r.Put(large, static_cast<float>(1 + rank));
      auto first = group->AllReduce(small, ReduceOp::kMax, *r.stream);
      auto second = group->AllReduce(large, ReduceOp::kSum, *r.stream);
      second->Wait();
      first->Wait();
      EXPECT_EQ(r.Get(large), std::vector<float>(static_cast<std::size_t>(large.Elements()), 3.0f));
      EXPECT_EQ(r.Get(small), std::vector<float>(3, 1.0f));
    }
    for (const Tensor& t : {staging, small, large}) r.device.Free(t.data, t.Bytes());
  });
}

TEST(StagedWorld, RejectsInvalidOperations) {
  OnTwoRanks([](int rank, Remote& r) {
    auto group = r.world->CreateGroup(CommGroup::kPipeline, AllRanks(2), Tensor{});
    const Tensor tensor = r.New(4);
    Tensor half = tensor;
    half.dtype = DType::kF16;
    EXPECT_THROW(group->AllReduce(half, ReduceOp::kSum, *r.stream), CommError);
    EXPECT_THROW(group->AllReduce(tensor, ReduceOp::kSum, *r.stream), CommError) << "without staging";
    EXPECT_THROW(group->Send(tensor, rank, 0, *r.stream), CommError);
    EXPECT_THROW(group->Recv(tensor, 2, 0, *r.stream), CommError);
    EXPECT_THROW(group->Recv(tensor, 1 - rank, -1, *r.stream), CommError);
    r.device.Free(tensor.data, tensor.Bytes());
    group->Barrier();
  });
}

}  // namespace
}  // namespace autocfg::trainer
