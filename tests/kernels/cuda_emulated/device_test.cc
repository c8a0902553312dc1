// The CUDA device's own code, on an emulated runtime.
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_device.h"
#include "tests/conformance/device_suite.h"

namespace autocfg {
namespace {

std::unique_ptr<Device> Create() { return cuda::CreateCudaDevice(0); }

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceSuite, testing::Values(DeviceUnderTest{"cuda", Create, true}),
                         [](const auto& info) { return info.param.name; });

TEST(EmulatedCudaDevice, IsNamedByItsOrdinal) {
  try {
    cuda::CreateCudaDevice(1);
    FAIL() << "there is one device";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(), "GPU 1 was asked for, but 1 is visible");
  }
}

TEST(EmulatedCudaDevice, ReportsMemoryThatDoesNotSuffice) {
  const auto device = Create();
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

}  // namespace
}  // namespace autocfg
