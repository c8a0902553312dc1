#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "tests/conformance/rank_threads.h"

namespace autocfg::trainer {
namespace {

TEST(NullWorld, LeavesDataInPlace) {
  auto world = CreateNullWorld(2, 8);
  auto group = world->CreateGroup(CommGroup::kData, {0, 2, 4, 6}, Tensor{});
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 4);
  HostStream stream;
  Buffer<float> sum(3, 2.5f), received(3, 7.5f);
  auto reduce = group->AllReduce(sum.tensor(), ReduceOp::kSum, stream);
  EXPECT_TRUE(reduce->Test());
  reduce->Wait();
  group->Recv(received.tensor(), 0, 0, stream)->Wait();
  group->Send(sum.tensor(), 3, 0, stream)->Wait();
  group->Barrier();
  EXPECT_EQ(sum.values, std::vector<float>(3, 2.5f));
  EXPECT_EQ(received.values, std::vector<float>(3, 7.5f)) << "a receive leaves the buffer unchanged";
}

// Copies of one rank in several processes exchange nothing but start together.
TEST(NullWorld, BarriersSynchronizeCopies) {
  constexpr int kCopies = 3;
  auto rendezvous = CreateLocalRendezvous(kCopies);
  std::atomic<int> came{0};
  std::vector<std::thread> threads;
  for (int copy = 0; copy < kCopies; ++copy) {
    threads.emplace_back([&, copy] {
      auto world = CreateNullWorld(5, 8, rendezvous[static_cast<std::size_t>(copy)].get());
      auto group = world->CreateGroup(CommGroup::kWorld, AllRanks(8), Tensor{});
      EXPECT_EQ(group->rank(), 5);
      for (int round = 1; round <= 10; ++round) {
        ++came;
        group->Barrier();
        EXPECT_GE(came.load(), round * kCopies);
        group->Barrier();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Tensors have no address on a device that computes nothing, and on a GPU the host cannot read them.
// Operations of every type complete at once, without waiting for absent peers.
TEST(NullWorld, TouchesNoData) {
  auto world = CreateNullWorld(0, 2);
  auto group = world->CreateGroup(CommGroup::kTensor, {0, 1}, Tensor{});
  HostStream stream;
  constexpr std::size_t kBytes = 1 << 20;
  void* unreadable = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(unreadable, MAP_FAILED);
  for (void* data : {static_cast<void*>(nullptr), unreadable}) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32}) {
      const Tensor tensor = {
          .data = data, .dtype = dtype, .rank = 1, .shape = {static_cast<std::int64_t>(kBytes) / 8}};
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax})
        EXPECT_TRUE(group->AllReduce(tensor, op, stream)->Test());
      EXPECT_TRUE(group->Send(tensor, 1, 0, stream)->Test());
      EXPECT_TRUE(group->Recv(tensor, 1, 1, stream)->Test());
    }
  }
  munmap(unreadable, kBytes);
}

TEST(NullWorld, RejectsInvalidArguments) {
  EXPECT_THROW(CreateNullWorld(2, 2), CommError);
  EXPECT_THROW(CreateNullWorld(0, 0), CommError);
  auto world = CreateNullWorld(0, 2);
  EXPECT_THROW(world->CreateGroup(CommGroup::kData, {1}, Tensor{}), CommError);
  auto group = world->CreateGroup(CommGroup::kTensor, {0, 1}, Tensor{});
  HostStream stream;
  Buffer<float> f(1);
  EXPECT_THROW(group->Send(f.tensor(), 0, 0, stream), CommError);
  EXPECT_THROW(group->Recv(f.tensor(), 1, 1000, stream), CommError);
}

}  // namespace
}  // namespace autocfg::trainer
