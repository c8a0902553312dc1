// The contract of Device. Include in one test file and instantiate DeviceSuite with the devices of this
// build. Tests are never skipped because of a device's properties: on a GPU a skipped test counts as failed
// (deploy/gpu/ops.py).
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "kernels/arena.h"
#include "kernels/device.h"
#include "search/ops/memory_sizes.h"

namespace autocfg {

struct DeviceUnderTest {
  std::string name;
  std::function<std::unique_ptr<Device>()> create;
  bool has_memory = true;  // false: counts bytes, stores none
};

class DeviceSuite : public testing::TestWithParam<DeviceUnderTest> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().create();
  std::unique_ptr<Stream> stream_ = device_->CreateStream();
};

TEST_P(DeviceSuite, HasAName) { EXPECT_EQ(device_->Name(), GetParam().name); }

TEST_P(DeviceSuite, MemoryIsAlignedAndZero) {
  for (std::int64_t bytes : {1, 64, 4097, 3 << 20}) {
    void* data = device_->Allocate(bytes);
    std::vector<char> host(static_cast<std::size_t>(bytes), 'x');
    device_->CopyToHost(host.data(), data, bytes, *stream_);
    stream_->Synchronize();
    EXPECT_EQ(host, std::vector<char>(static_cast<std::size_t>(bytes), 0)) << bytes << " bytes";
    if (GetParam().has_memory) {
      ASSERT_NE(data, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kArenaAlignment, 0u);
      const std::vector<char> ones(static_cast<std::size_t>(bytes),
                                   1);  // must not be visible to the next allocation
      device_->CopyFromHost(data, ones.data(), bytes, *stream_);
      stream_->Synchronize();
    } else {
      EXPECT_EQ(data, nullptr);
    }
    device_->Free(data, bytes);
  }
}

TEST_P(DeviceSuite, CopiesThereAndBack) {
  constexpr std::int64_t kCount = 1000;
  std::vector<std::int32_t> in(kCount), out(kCount, -1);
  std::iota(in.begin(), in.end(), 7);
  void* data = device_->Allocate(kCount * 4);
  device_->CopyFromHost(data, in.data(), kCount * 4, *stream_);
  const std::vector<std::int32_t> sent = in;
  std::fill(in.begin(), in.end(), 0);  // the host memory may be reused at once
  device_->CopyToHost(out.data(), data, kCount * 4, *stream_);
  stream_->Synchronize();
  EXPECT_EQ(out, GetParam().has_memory ? sent : std::vector<std::int32_t>(kCount, 0));
  device_->Free(data, kCount * 4);
}

TEST_P(DeviceSuite, CopiesWithin) {
  constexpr std::int64_t kCount = 1000;
  std::vector<std::int32_t> in(kCount), out(2 * kCount, -1);
  std::iota(in.begin(), in.end(), 7);
  void* data = device_->Allocate(2 * kCount * 4);
  void* behind = GetParam().has_memory ? static_cast<char*>(data) + kCount * 4 : nullptr;
  device_->CopyFromHost(data, in.data(), kCount * 4, *stream_);
  device_->CopyWithin(behind, data, kCount * 4, *stream_);
  device_->CopyToHost(out.data(), data, 2 * kCount * 4, *stream_);
  stream_->Synchronize();
  if (!GetParam().has_memory) in.assign(kCount, 0);
  std::vector<std::int32_t> twice = in;
  twice.insert(twice.end(), in.begin(), in.end());
  EXPECT_EQ(out, twice);
  device_->Free(data, 2 * kCount * 4);
}

TEST_P(DeviceSuite, TimesIntervalsOfAStream) {
  constexpr std::int64_t kBytes = 1 << 20;
  const std::vector<char> in(kBytes, 1);
  std::vector<char> out(kBytes, 2);
  void* data = device_->Allocate(kBytes);
  const auto outer = device_->CreateTimer(), inner = device_->CreateTimer();
  for (int again = 0; again < 2; ++again) {
    outer->Start(*stream_);
    device_->CopyFromHost(data, in.data(), kBytes, *stream_);
    inner->Start(*stream_);
    device_->CopyToHost(out.data(), data, kBytes, *stream_);
    inner->Stop(*stream_);
    outer->Stop(*stream_);
    EXPECT_GE(inner->Seconds(), 0);
    EXPECT_EQ(out, std::vector<char>(kBytes, GetParam().has_memory ? 1 : 0))
        << "the stream has come to the stop";
    EXPECT_GE(outer->Seconds(), inner->Seconds() - 2e-6);  // the resolution of clocks
    EXPECT_EQ(outer->Seconds(), outer->Seconds()) << "it may be read again";
    std::fill(out.begin(), out.end(), 2);
  }
  device_->Free(data, kBytes);
}

// Reads directly if the device computes on the host, else through a copy.
TEST_P(DeviceSuite, HostReadsResultsIfDeclared) {
  void* data = device_->Allocate(4);
  const std::int32_t value = 42;
  device_->CopyFromHost(data, &value, 4, *stream_);
  std::int32_t read = -1;
  if (device_->ComputesOnHost()) {
    stream_->Synchronize();
    read = *static_cast<std::int32_t*>(data);
  } else {
    device_->CopyToHost(&read, data, 4, *stream_);
    stream_->Synchronize();
  }
  EXPECT_EQ(read, GetParam().has_memory ? 42 : 0);
  device_->Free(data, 4);
}

TEST_P(DeviceSuite, CacheIsKnownOrZero) {
  const std::int64_t bytes = device_->CacheBytes();
  EXPECT_GE(bytes, 0);
  EXPECT_LT(bytes, std::int64_t{1} << 40);
  EXPECT_EQ(device_->CacheBytes(), bytes);
}

// On a GPU, other processes may allocate or free memory between the two queries. So this tries again; some
// pair of values must match.
TEST_P(DeviceSuite, OverheadExcludesTheArena) {
  constexpr int kAttempts = 20;
  const std::int64_t bytes = 64 << 20;
  void* data = device_->Allocate(bytes);
  std::int64_t less = 0;
  for (int attempt = 0; attempt < kAttempts && less < bytes / 2; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::int64_t without = device_->OverheadBytes(0), overhead = device_->OverheadBytes(bytes);
    ASSERT_GE(overhead, 0);
    less = without - overhead;
  }
  EXPECT_GE(less, bytes / 2);
  device_->Free(data, bytes);
}

TEST_P(DeviceSuite, RejectsImpossibleAllocations) {
  const std::int64_t huge = std::int64_t{1} << 55;
  if (!GetParam().has_memory) {  // counts any number of bytes
    EXPECT_NO_THROW(device_->Free(device_->Allocate(huge), huge));
    return;
  }
  try {
    device_->Allocate(huge);
    FAIL() << "allocated 2^55 bytes";
  } catch (const DeviceOutOfMemory& error) {
    EXPECT_EQ(error.wanted_bytes, huge);
    EXPECT_LT(error.available_bytes, huge);
  }
}

}  // namespace autocfg
