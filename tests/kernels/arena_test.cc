#include "kernels/arena.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <stdexcept>

#include "kernels/cpu/cpu_device.h"
#include "kernels/dry/dry_device.h"
#include "search/ops/memory_sizes.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

std::int64_t Address(const Tensor& t) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(t.data));
}

TEST(Arena, NamesItsRegions) {
  EXPECT_EQ(Name(Region::kParameters), "parameters");
  EXPECT_EQ(Name(Region::kCommunication), "communication");
}

TEST(Arena, RoundsEveryReservationUp) {
  const auto device = CreateDryDevice();
  Arena arena(*device);
  EXPECT_EQ(arena.Reserve(Region::kGradients, DType::kF32, {1}).offset, 0);
  EXPECT_EQ(arena.Reserve(Region::kGradients, DType::kF64, {3, 3}).offset, 64);  // 72 bytes round up to 128
  EXPECT_EQ(arena.Reserve(Region::kGradients, DType::kF32, {16}).offset, 192);
  EXPECT_EQ(arena.Reserve(Region::kWorkspace, DType::kI32, {17}).offset, 0);
  EXPECT_EQ(arena.ReservedBytes(Region::kGradients), 256);
  EXPECT_EQ(arena.ReservedBytes(Region::kWorkspace), 128);
  EXPECT_EQ(arena.ReservedBytes(Region::kParameters), 0);
  EXPECT_EQ(arena.TotalBytes(), 384);
}

TEST(Arena, RegionOrderDoesNotDependOnReservationOrder) {
  const auto device = CreateCpuDevice();
  Arena arena(*device);
  const auto work = arena.Reserve(Region::kWorkspace, DType::kF32, {5});
  const auto p1 = arena.Reserve(Region::kParameters, DType::kF64, {2, 3});
  const auto grad = arena.Reserve(Region::kGradients, DType::kF32, {100});
  const auto p2 = arena.Reserve(Region::kParameters, DType::kF32, {4});
  arena.Commit();
  const Tensor first = arena.At(p1);
  EXPECT_EQ(Address(first) % kArenaAlignment, 0);
  EXPECT_EQ(Address(arena.At(p2)), Address(first) + 64);
  EXPECT_EQ(Address(arena.At(grad)), Address(first) + 128);
  EXPECT_EQ(Address(arena.At(work)), Address(first) + 128 + 448);
  EXPECT_EQ(first.rank, 2);
  EXPECT_EQ(first.shape[0], 2);
  EXPECT_EQ(first.shape[1], 3);
  EXPECT_EQ(first.dtype, DType::kF64);
  EXPECT_EQ(first.As<double>()[5], 0.0);
}

TEST(Arena, WholeRegionIncludesPadding) {
  const auto device = CreateCpuDevice();
  Arena arena(*device);
  arena.Reserve(Region::kParameters, DType::kF32, {1000});
  const auto a = arena.Reserve(Region::kGradients, DType::kF32, {3});
  arena.Reserve(Region::kGradients, DType::kF32, {20});
  arena.Commit();
  const Tensor whole = arena.Whole(Region::kGradients, DType::kF32);
  EXPECT_EQ(whole.data, arena.At(a).data);
  EXPECT_EQ(whole.rank, 1);
  EXPECT_EQ(whole.Elements(), (64 + 128) / 4);
  EXPECT_EQ(arena.Whole(Region::kGradients, DType::kF64).Elements(), (64 + 128) / 8);
}

TEST(Arena, ReturnsNullPointersWithoutMemory) {
  const auto device = CreateDryDevice();
  {
    Arena arena(*device);
    arena.Reserve(Region::kParameters, DType::kF32, {100});
    const auto r = arena.Reserve(Region::kGradients, DType::kF32, {100});
    arena.Commit();
    EXPECT_EQ(arena.At(r).data, nullptr);
    EXPECT_EQ(arena.Whole(Region::kGradients, DType::kF32).data, nullptr);
    EXPECT_EQ(device->OverheadBytes(0), arena.TotalBytes());
  }
  EXPECT_EQ(device->OverheadBytes(0), 0) << "the arena was not given back";
}

TEST(Arena, ExceededCapacityNamesTheLargestRegion) {
  const auto device = CreateDryDevice();
  Arena arena(*device);
  arena.Reserve(Region::kParameters, DType::kF32, {16});
  arena.Reserve(Region::kActivations, DType::kF32, {64});
  try {
    arena.Commit(319);
    FAIL() << "320 bytes were taken from 319";
  } catch (const DeviceOutOfMemory& error) {
    EXPECT_EQ(error.wanted_bytes, 320);
    EXPECT_EQ(error.available_bytes, 319);
    EXPECT_THAT(error.what(), HasSubstr("1 more than the capacity of 319"));
    EXPECT_THAT(error.what(), HasSubstr("activations with 256 bytes"));
  }
  EXPECT_NO_THROW(arena.Commit(320));
}

TEST(Arena, NamesTheLargestRegionIfTheDeviceRefuses) {
  const auto device = CreateCpuDevice();
  Arena arena(*device);
  arena.Reserve(Region::kParameters, DType::kF32, {16});
  arena.Reserve(Region::kOptimizer, DType::kF32, {std::int64_t{1} << 53});
  try {
    arena.Commit();
    FAIL() << "2^55 bytes were taken";
  } catch (const DeviceOutOfMemory& error) {
    EXPECT_EQ(error.wanted_bytes, arena.TotalBytes());
    EXPECT_THAT(error.what(), HasSubstr("optimizer"));
  }
}

TEST(Arena, RejectsSizesThatOverflow) {
  const auto device = CreateDryDevice();
  Arena arena(*device);
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_THROW(arena.Reserve(Region::kParameters, DType::kF32, {big, big}), DeviceOutOfMemory);
  arena.Reserve(Region::kParameters, DType::kF32, {big, 1 << 20});
  EXPECT_THROW(arena.Reserve(Region::kGradients, DType::kF32, {big, 1 << 20}), DeviceOutOfMemory);
  EXPECT_EQ(arena.ReservedBytes(Region::kGradients), 0);
}

TEST(Arena, RejectsInvalidShapes) {
  const auto device = CreateDryDevice();
  Arena arena(*device);
  EXPECT_THROW(arena.Reserve(Region::kParameters, DType::kF32, {4, 0}), std::invalid_argument);
  EXPECT_THROW(arena.Reserve(Region::kParameters, DType::kF32, {-4}), std::invalid_argument);
  EXPECT_THROW(arena.Reserve(Region::kParameters, DType::kF32, {1, 1, 1, 1, 1}), std::invalid_argument);
}

TEST(Arena, RejectsCallsInTheWrongPhase) {
  const auto device = CreateDryDevice();
  Arena arena(*device);
  const auto r = arena.Reserve(Region::kParameters, DType::kF32, {4});
  EXPECT_THROW(arena.At(r), std::logic_error);
  EXPECT_THROW(arena.Whole(Region::kParameters, DType::kF32), std::logic_error);
  arena.Commit();
  EXPECT_THROW(arena.Commit(), std::logic_error);
  EXPECT_THROW(arena.Reserve(Region::kParameters, DType::kF32, {4}), std::logic_error);
}

}  // namespace
}  // namespace autocfg
