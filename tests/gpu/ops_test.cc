// Compares every op on the GPU with references in double precision, on fresh inputs, with outputs poisoned
// first.
#include <vector>

#include "tests/conformance/ops/ops_attention_suite.h"
#include "tests/conformance/ops/ops_cross_entropy_suite.h"
#include "tests/conformance/ops/ops_epilogue_suite.h"
#include "tests/conformance/ops/ops_suite.h"
#include "tests/gpu/gpu_under_test.h"

namespace autocfg {
namespace {

std::vector<OpsUnderTest> OpsImplementations() {
  if (!WhyNoGpu().empty()) return {};
  return {GpuF32(), GpuBF16(), GpuBF16WithBf16Gradients()};
}

// For ops that have no gradients of parameters.
std::vector<OpsUnderTest> OpsOfActivations() {
  if (!WhyNoGpu().empty()) return {};
  return {GpuF32(), GpuBF16()};
}

TEST(Gpu, IsThere) {
  if (const std::string why = WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_GT(cuda::DeviceCount(), 0);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpsSuite);
INSTANTIATE_TEST_SUITE_P(Gpu, OpsSuite, testing::ValuesIn(OpsImplementations()),
                         [](const auto& info) { return info.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpsAttentionSuite);
INSTANTIATE_TEST_SUITE_P(Gpu, OpsAttentionSuite, testing::ValuesIn(OpsOfActivations()),
                         [](const auto& info) { return info.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpsCrossEntropySuite);
INSTANTIATE_TEST_SUITE_P(Gpu, OpsCrossEntropySuite, testing::ValuesIn(OpsImplementations()),
                         [](const auto& info) { return info.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpsEpilogueSuite);
INSTANTIATE_TEST_SUITE_P(Gpu, OpsEpilogueSuite, testing::ValuesIn(OpsImplementations()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace autocfg
