#include "kernels/cpu/cpu_device.h"
#include "kernels/dry/dry_device.h"
#include "kernels/paced/paced_device.h"
#include "tests/conformance/device_suite.h"
#include "tests/support/remote_device.h"

namespace autocfg {
namespace {

std::unique_ptr<Device> CreatePaced() {
  // outlives every device of the suite, which runs no ops
  static PacedClock clock([](const OpDesc&) { return 1.0; });
  return CreatePacedDevice(clock);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSuite,
                         testing::Values(DeviceUnderTest{"cpu", CreateCpuDevice, true},
                                         DeviceUnderTest{"dry", CreateDryDevice, false},
                                         DeviceUnderTest{"paced", CreatePaced, false},
                                         DeviceUnderTest{"remote", std::make_unique<RemoteDevice>, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace autocfg
