// Runs the device suite on the GPU.
#include <vector>

#include "tests/conformance/device_suite.h"
#include "tests/gpu/gpu_under_test.h"

namespace autocfg {
namespace {

std::vector<DeviceUnderTest> DeviceImplementations() {
  if (!WhyNoGpu().empty()) return {};
  return {{"cuda", CreateFirstGpu, true}};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceSuite);
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceSuite, testing::ValuesIn(DeviceImplementations()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace autocfg
