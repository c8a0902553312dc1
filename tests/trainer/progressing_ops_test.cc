// Communication progresses after each op that a rank issues, without being waited for.
#include "trainer/parallel/progressing_ops.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "kernels/cpu/cpu_device.h"
#include "kernels/dry/dry_device.h"
#include "tests/conformance/rank_threads.h"
#include "trainer/comm/comm_world.h"

namespace autocfg::trainer {
namespace {

Tensor Of(std::initializer_list<std::int64_t> shape) { return Tensor{}.Reshape(shape); }

// Completes at its `tests`-th test, or fails there.
class TestedWork final : public Work {
 public:
  TestedWork(int tests, bool fails, int& tested) : tests_(tests), fails_(fails), tested_(tested) {}
  void Wait() override {}
  bool Test() override {
    if (++tested_ < tests_) return false;
    if (fails_) throw CommError("rank 7 is gone");
    return true;
  }

 private:
  const int tests_;
  const bool fails_;
  int& tested_;
};

// Notes when a test finds the operation complete.
class NotedWork final : public Work {
 public:
  NotedWork(std::unique_ptr<Work> work, bool& complete) : work_(std::move(work)), complete_(complete) {}
  void Wait() override { work_->Wait(); }
  bool Test() override { return complete_ = work_->Test(); }

 private:
  const std::unique_ptr<Work> work_;
  bool& complete_;
};

TEST(ProgressingOps, TestWhatIsPendingAfterEachOp) {
  OpLog log;
  const std::unique_ptr<Ops> inner = CreateDryOps(log);
  PendingWorks pending;
  const std::unique_ptr<Ops> ops = CreateProgressingOps(*inner, pending);
  HostStream stream;
  ops->Fill(Of({8}), 0, stream);
  int first = 0, second = 0, ended = 0;
  pending.Add(std::make_unique<TestedWork>(2, false, first), [&] { ++ended; });
  const std::int64_t ticket = pending.Add(std::make_unique<TestedWork>(3, false, second));
  for (int op = 0; op < 5; ++op) ops->ResidualAdd(Of({4, 5}), Of({4, 5}), stream);
  EXPECT_EQ(first, 2) << "it is done, and not tested again";
  EXPECT_EQ(second, 3);
  EXPECT_EQ(ended, 0) << "its end is noticed when it is waited for";
  EXPECT_EQ(log.ops().size(), 6u);
  pending.Wait(ticket);
  pending.WaitAll();
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(second, 3);
}

TEST(ProgressingOps, ThrowTheErrorOfAPeer) {
  OpLog log;
  const std::unique_ptr<Ops> inner = CreateDryOps(log);
  PendingWorks pending;
  const std::unique_ptr<Ops> ops = CreateProgressingOps(*inner, pending);
  HostStream stream;
  int tested = 0;
  pending.Add(std::make_unique<TestedWork>(2, true, tested));
  ops->Fill(Of({8}), 0, stream);
  EXPECT_THROW(ops->Fill(Of({8}), 0, stream), CommError);
  EXPECT_EQ(log.ops().size(), 2u) << "the op itself was issued";
}

// A message of many megabytes arrives although both ranks only compute: neither waits for it.
TEST(ProgressingOps, MoveMessagesWhileRanksCompute) {
  constexpr std::int64_t kElements = 4 << 20;
  std::atomic<int> computing = 2;  // ranks that have not seen the message complete
  RunRanks(2, CreateUcxWorld, [&](RankContext& c) {
    Group group(c, CommGroup::kPipeline, AllRanks(2));
    Buffer<float> message(kElements, c.rank == 0 ? 3.0f : 0.0f), computed(1000);
    const std::unique_ptr<Ops> inner = CreateCpuOps();
    PendingWorks pending;
    const std::unique_ptr<Ops> ops = CreateProgressingOps(*inner, pending);
    bool complete = false, counted = false;
    pending.Add(std::make_unique<NotedWork>(c.rank == 0 ? group->Send(message.tensor(), 1, 0, c.stream)
                                                        : group->Recv(message.tensor(), 0, 0, c.stream),
                                            complete));
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (computing > 0 && std::chrono::steady_clock::now() < give_up) {
      ops->Fill(computed.tensor(), 1, c.stream);
      if (complete && !std::exchange(counted, true)) --computing;
    }
    EXPECT_TRUE(complete);
    EXPECT_EQ(message.values.back(), 3.0f);
    pending.WaitAll();
  });
}

}  // namespace
}  // namespace autocfg::trainer
