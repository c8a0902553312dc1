// Tests of saving as it goes on: what a rank copies at once, how much memory of the host that takes, and what
// a kill at any copy leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/stopped_runs.h"
#include "trainer/checkpoint/checkpoint_directory.h"

namespace autocfg::trainer {
namespace {

using ::testing::HasSubstr;

// The CPU's device, which tells of each copy between device and host before it makes it.
class WatchedDevice final : public Device {
 public:
  using Watch = std::function<void(std::int64_t bytes)>;
  explicit WatchedDevice(Watch watch) : watch_(std::move(watch)) {}

  std::string Name() const override { return cpu_->Name(); }
  bool ComputesOnHost() const override { return cpu_->ComputesOnHost(); }
  bool ComputesIn(DType type) const override { return cpu_->ComputesIn(type); }
  void* Allocate(std::int64_t bytes) override { return cpu_->Allocate(bytes); }
  void Free(void* data, std::int64_t bytes) noexcept override { cpu_->Free(data, bytes); }
  std::unique_ptr<Stream> CreateStream() override { return cpu_->CreateStream(); }
  void CopyFromHost(void* device, const void* host, std::int64_t bytes, Stream& stream) override {
    watch_(bytes);
    cpu_->CopyFromHost(device, host, bytes, stream);
  }
  void CopyToHost(void* host, const void* device, std::int64_t bytes, Stream& stream) override {
    watch_(bytes);
    cpu_->CopyToHost(host, device, bytes, stream);
  }
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    return cpu_->OverheadBytes(arena_bytes);
  }

 private:
  const Watch watch_;
  const std::unique_ptr<Device> cpu_ = CreateCpuDevice();
};

// A trainer of one rank on a watched device.
class WatchedTrainer {
 public:
  WatchedTrainer(const TrainConfig& config, const WatchedDevice::Watch& watch)
      : config_(config), rendezvous_(CreateLocalRendezvous(1)) {
    backend_ = CreateBackend(EngineDevice::kCpu, *rendezvous_[0]);
    backend_.device = std::make_unique<WatchedDevice>(watch);
    trainer_.emplace(config_, 0, 1, backend_);
  }
  RankTrainer& operator*() { return *trainer_; }
  RankTrainer* operator->() { return &*trainer_; }

 private:
  const TrainConfig config_;
  const std::vector<std::unique_ptr<Rendezvous>> rendezvous_;
  Backend backend_;
  std::optional<RankTrainer> trainer_;
};

// Bytes of the heap that are in use, in either of malloc's places.
std::int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks) + static_cast<std::int64_t>(info.hblkhd);
}

// 13 million parameters, most of them in two tensors: 40 MB of each of weights and moments in fp32.
TrainConfig LargeRun() {
  TrainConfig c = test::SmallConfig();
  c.model = {};
  c.model.name = "wide";
  c.model.layers = 1;
  c.model.hidden = 256;
  c.model.heads = 4;
  c.model.vocab = 20'000;
  c.model.max_seq_len = 8;
  c.model.tied_embeddings = false;
  FillDefaults(c.model);
  c.workload.global_batch = 1;
  c.workload.seq_len = 4;
  c.workload.precision = *ParsePrecision("fp32");
  return c;
}

TEST(SavingMemory, IsAFewMebibytesWhateverTheModel) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's heap does not count";
#endif
  constexpr std::int64_t kMiB = 1 << 20;
  const TempDir home;
  TrainConfig c = LargeRun();
  c.checkpoint_path = home.File("ckpt");
  std::int64_t largest_copy = 0, most = 0, copied = 0;
  const auto watch = [&](std::int64_t bytes) {
    largest_copy = std::max(largest_copy, bytes);
    most = std::max(most, HeapBytes());
    copied += bytes;
  };
  std::int64_t state_bytes = 0, arena_bytes = 0;
  {
    WatchedTrainer trainer(c, watch);
    arena_bytes = trainer->arena().TotalBytes();
    state_bytes = trainer->arena().ReservedBytes(Region::kParameters) +
                  trainer->arena().ReservedBytes(Region::kOptimizer);
    ASSERT_GT(state_bytes, 100 * kMiB);
    trainer->Step();
    largest_copy = most = copied = 0;
    // Measured: saving takes 1.1 MB of heap, and restoring as much. Both copy blocks of at most 1 MiB.
    const std::int64_t before = HeapBytes();
    trainer->SaveCheckpoint();
    EXPECT_GE(copied, state_bytes / 100 * 99) << "the watch sees the copies";
    EXPECT_LE(largest_copy, kMiB);
    EXPECT_LE(most - before, 4 * kMiB) << "of " << state_bytes << " bytes";
    EXPECT_GE(most - before, kMiB) << "the heap is counted";
    EXPECT_EQ(trainer->arena().TotalBytes(), arena_bytes);
  }
  // Restoring: all copies of a rank that is made from a checkpoint.
  c.resume_path = std::exchange(c.checkpoint_path, "");
  largest_copy = most = copied = 0;
  const std::int64_t before = HeapBytes();
  WatchedTrainer trainer(c, watch);
  EXPECT_EQ(trainer->step(), 1);
  EXPECT_GE(copied, state_bytes / 100 * 99);
  EXPECT_LE(largest_copy, kMiB);
  // The arena is in the heap too: that of the CPU's device.
  const std::int64_t arena_in_heap = HeapBytes() - before > arena_bytes / 2 ? arena_bytes : 0;
  EXPECT_LE(most - before - arena_in_heap, 4 * kMiB);
  EXPECT_EQ(trainer->arena().TotalBytes(), arena_bytes);
}

// The process is killed before each of the copies of a save, so within the file at every tensor.
TEST(KilledWhileSaving, LeavesTheOlderCheckpoint) {
  TrainConfig c = test::SmallConfig();
  c.model.layers = 1;
  c.lr.steps = 6;
  const TempDir home;
  c.checkpoint_path = home.File("ckpt");
  std::int64_t copies = 0;
  {
    WatchedTrainer trainer(c, [&](std::int64_t) { ++copies; });
    trainer->Step();
    copies = 0;
    trainer->SaveCheckpoint();
  }
  ASSERT_GT(copies, 30);
  TrainConfig resumed = c;
  resumed.resume_path = c.checkpoint_path;
  for (std::int64_t kill_at = 0; kill_at < copies; kill_at += 3) {
    const pid_t child = fork();
    if (child == 0) {
      std::int64_t left = -1;
      WatchedTrainer trainer(resumed, [&](std::int64_t) {
        if (left == 0) raise(SIGKILL);
        if (left > 0) --left;
      });
      trainer->Step();
      left = kill_at;
      trainer->SaveCheckpoint();
      _exit(0);  // not reached
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "copy " << kill_at;
    const auto found = FindCheckpoints(c.checkpoint_path);
    ASSERT_EQ(found.size(), 1u) << "copy " << kill_at;
    EXPECT_EQ(found[0].step, 1);
    EXPECT_TRUE(std::filesystem::exists(PartialPath(c.checkpoint_path, 2))) << "killed too early";
  }
  WatchedTrainer trainer(resumed, [](std::int64_t) {});
  EXPECT_EQ(trainer->step(), 1);
  EXPECT_THAT(trainer->resumed().notes.at(0), HasSubstr("step-1"));
  trainer->Step();
  EXPECT_THAT(trainer->SaveCheckpoint(), HasSubstr("step-2"));
  EXPECT_FALSE(std::filesystem::exists(PartialPath(c.checkpoint_path, 2))) << "what was left is cleared up";
}

}  // namespace
}  // namespace autocfg::trainer
