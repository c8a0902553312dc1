#include "kernels/cpu/cpu_device.h"
#include "kernels/dry/dry_device.h"
#include "tests/conformance/device_suite.h"

namespace autocfg {
namespace {

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSuite,
                         testing::Values(DeviceUnderTest{"cpu", CreateCpuDevice, true},
                                         DeviceUnderTest{"dry", CreateDryDevice, false}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace autocfg
