// Tests that scratch memory grows as needed and is freed only between steps.
#include "kernels/cuda/device/scratch.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/device.h"

namespace autocfg::cuda {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::int64_t FreeBytes() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return static_cast<std::int64_t>(free);
}

int Frees() { return cuda_emulator::Waits().frees; }

TEST(CudaScratch, FreesNothingBeforeRelease) {
  const std::int64_t free = FreeBytes();
  const int frees = Frees();
  {
    Scratch scratch;
    void* const first = scratch.Get(kMiB);
    EXPECT_EQ(scratch.Get(100), first);
    void* const second = scratch.Get(2 * kMiB);
    EXPECT_NE(second, first);
    void* const spare = scratch.Spare(kMiB);
    ASSERT_NE(spare, nullptr);
    EXPECT_NE(spare, second);
    EXPECT_EQ(scratch.Spare(kMiB), spare);
    EXPECT_NE(scratch.Spare(3 * kMiB), spare);
    EXPECT_EQ(Frees(), frees);
    EXPECT_EQ(FreeBytes(), free - 7 * kMiB);

    scratch.Release();
    EXPECT_EQ(FreeBytes(), free - 2 * kMiB);
    EXPECT_EQ(scratch.Get(2 * kMiB), second);
    const int released = Frees();
    scratch.Release();
    EXPECT_EQ(Frees(), released) << "there is nothing to give back";
    EXPECT_NE(scratch.Spare(kMiB), nullptr) << "it may be asked for again";
  }
  EXPECT_EQ(FreeBytes(), free);
}

// If the device has no room for both the old and the new block, the old one is freed first, and the spare one
// too.
TEST(CudaScratch, GrowsWithoutRoomForBothBlocks) {
  const std::int64_t free = FreeBytes();
  Scratch scratch;
  scratch.Get(kMiB);
  ASSERT_NE(scratch.Spare(kMiB), nullptr);
  cuda_emulator::SetFreeMemory(kMiB);
  EXPECT_NE(scratch.Get(2 * kMiB), nullptr);
  EXPECT_EQ(FreeBytes(), kMiB);
  EXPECT_THROW(scratch.Get(4 * kMiB), DeviceOutOfMemory);
  EXPECT_EQ(FreeBytes(), 3 * kMiB);
  EXPECT_NE(scratch.Get(2 * kMiB), nullptr) << "a failure leaves it as new";
  cuda_emulator::SetFreeMemory(static_cast<std::size_t>(free - 2 * kMiB));
}

TEST(CudaScratch, SpareLeavesSomeMemoryFree) {
  Scratch scratch;
  const std::int64_t free = FreeBytes();
  EXPECT_EQ(scratch.Spare(free - Scratch::kLeftFree + 1), nullptr);
  EXPECT_EQ(FreeBytes(), free);
  EXPECT_NE(scratch.Spare(kMiB), nullptr);
}

}  // namespace
}  // namespace autocfg::cuda
