// Tests the CUDA device's host code on an emulated runtime.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/device/cuda_device.h"
#include "tests/conformance/device_suite.h"
#include "tests/support/cuda_emulator/cuda_runtime.h"

namespace autocfg {
namespace {

std::unique_ptr<Device> CreateEmulated() { return cuda::CreateCudaDevice(0); }

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceSuite, testing::Values(DeviceUnderTest{"cuda", CreateEmulated, true}),
                         [](const auto& info) { return info.param.name; });

TEST(EmulatedCudaDevice, IsNamedByItsOrdinal) {
  try {
    cuda::CreateCudaDevice(1);
    FAIL() << "there is one device";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(), "GPU 1 was requested, but 1 is visible");
  }
}

TEST(EmulatedCudaDevice, ReportsInsufficientMemory) {
  const auto device = CreateEmulated();
  void* some = device->Allocate(std::int64_t{1} << 20);
  try {
    device->Allocate(std::int64_t{1} << 40);
    FAIL() << "the device has 1 GiB";
  } catch (const DeviceOutOfMemory& error) {
    EXPECT_EQ(error.wanted_bytes, std::int64_t{1} << 40);
    EXPECT_GT(error.available_bytes, 0);
    EXPECT_LE(error.available_bytes, (std::int64_t{1} << 30) - (std::int64_t{1} << 20));
  }
  EXPECT_EQ(device->OverheadBytes(std::int64_t{1} << 20), 0);
  EXPECT_EQ(device->OverheadBytes(0), std::int64_t{1} << 20);
  device->Free(some, std::int64_t{1} << 20);
}

// A copy between the device and memory that is not pinned makes the driver's call wait for the stream,
// without checking on the peers. The device therefore waits itself first. Copies through pinned memory do not
// block.
TEST(EmulatedCudaDevice, DoesNotBlockInTheDriver) {
  constexpr std::int64_t kLarge = std::int64_t{17} << 20;  // too large for the pinned memory
  const auto device = CreateEmulated();
  const auto stream = device->CreateStream();
  void* data = device->Allocate(kLarge);
  std::vector<char> pageable(kLarge, 7);
  char* pinned = static_cast<char*>(device->AllocateHost(64));
  const cuda_emulator::HostWaits before = cuda_emulator::Waits();

  device->CopyFromHost(data, pageable.data(), 32, *stream);  // the stream has work
  device->CopyToHost(pinned, data, 32, *stream);
  device->CopyToHost(pinned + 32, data, 32, *stream);
  EXPECT_EQ(cuda_emulator::Waits().synchronisations, before.synchronisations);
  device->CopyToHost(pageable.data(), data, 64, *stream);
  device->CopyFromHost(data, pageable.data(), kLarge, *stream);
  EXPECT_EQ(cuda_emulator::Waits().blocked_copies, before.blocked_copies);
  EXPECT_GT(cuda_emulator::Waits().synchronisations, before.synchronisations);
  EXPECT_EQ(pinned[63], 7);

  device->FreeHost(pinned, 64);
  device->Free(data, kLarge);
}

// Memory is pinned only when the device is opened, however far the host is ahead: the host waits for the
// oldest copies instead.
TEST(EmulatedCudaDevice, PinsNoMemoryDuringAStep) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 20, kCopies = 100;
  const int before = cuda_emulator::Waits().pinned;
  const auto device = CreateEmulated();
  EXPECT_EQ(cuda_emulator::Waits().pinned, before + 1);
  const auto stream = device->CreateStream();
  char* data = static_cast<char*>(device->Allocate(kCopies * kBytes));
  const int waited = cuda_emulator::Waits().events;
  cuda_emulator::SetEventsPending(true);
  for (std::int64_t i = 0; i < kCopies; ++i) {
    const std::vector<char> host(kBytes, static_cast<char>(i));
    device->CopyFromHost(data + i * kBytes, host.data(), kBytes, *stream);
    if (i < 16) {
      EXPECT_EQ(cuda_emulator::Waits().events, waited) << "there is room for " << i;
    }
  }
  EXPECT_GT(cuda_emulator::Waits().events, waited);
  cuda_emulator::SetEventsPending(false);
  stream->Synchronize();
  const int no_more = cuda_emulator::Waits().events;
  const std::vector<char> large(16 * kBytes, 'x');
  device->CopyFromHost(data, large.data(), 16 * kBytes, *stream);
  EXPECT_EQ(cuda_emulator::Waits().events, no_more) << "what is done is not waited for";
  EXPECT_EQ(cuda_emulator::Waits().pinned, before + 1);
  for (std::int64_t i = 16; i < kCopies; ++i) EXPECT_EQ(data[i * kBytes + kBytes - 1], static_cast<char>(i));
  device->Free(data, kCopies * kBytes);
}

}  // namespace
}  // namespace autocfg
