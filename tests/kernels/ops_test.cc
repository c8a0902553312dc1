#include "tests/conformance/ops/ops_cross_entropy_suite.h"
#include "tests/conformance/ops/ops_epilogue_suite.h"
#include "tests/conformance/ops/ops_gradient_suite.h"
#include "tests/conformance/ops/ops_suite.h"
#include "tests/kernels/implementations.h"

namespace autocfg {
namespace {

INSTANTIATE_TEST_SUITE_P(Implementations, OpsSuite, testing::Values(CpuF32(), CpuF64(), AwaitedCpuF64()),
                         TestName);
INSTANTIATE_TEST_SUITE_P(Implementations, OpsCrossEntropySuite,
                         testing::Values(CpuF32(), CpuF64(), AwaitedCpuF64()), TestName);
INSTANTIATE_TEST_SUITE_P(Implementations, OpsEpilogueSuite,
                         testing::Values(CpuF32(), CpuF64(), AwaitedCpuF64()), TestName);
INSTANTIATE_TEST_SUITE_P(Implementations, OpsGradientSuite, testing::Values(CpuF64(), AwaitedCpuF64()),
                         TestName);

}  // namespace
}  // namespace autocfg
