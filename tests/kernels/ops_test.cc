#include <array>
#include <stdexcept>

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

class CpuTypes : public testing::Test {
 protected:
  OnDevice dev_{CpuF32()};
};

TEST_F(CpuTypes, RejectsUnsupportedTypes) {
  const Tensor half = dev_.New({2, 2}, DType::kBF16);
  EXPECT_THROW(dev_.ops->Matmul(half, Transpose::kNo, half, Transpose::kNo, half, false, *dev_.stream),
               std::invalid_argument);
  EXPECT_THROW(dev_.ops->Fill(half, 0, *dev_.stream), std::invalid_argument);
}

TEST_F(CpuTypes, RejectsMixedTypes) {
  const Tensor narrow = dev_.New({2, 2}), wide = dev_.New({2, 2}, DType::kF64);
  EXPECT_THROW(dev_.ops->Matmul(narrow, Transpose::kNo, narrow, Transpose::kNo, wide, false, *dev_.stream),
               std::invalid_argument);
  EXPECT_THROW(
      dev_.ops->MatmulBiasGradient(narrow, narrow, wide, dev_.New({2}, DType::kF64), true, *dev_.stream),
      std::invalid_argument);
  EXPECT_THROW(dev_.ops->AdamW(std::array{AdamWTensor{narrow, wide, {}, narrow, narrow}}, {}, *dev_.stream),
               std::invalid_argument);
}

TEST_F(CpuTypes, RejectsMasterCopies) {
  const Tensor t = dev_.New({2, 2});
  EXPECT_THROW(dev_.ops->AdamW(std::array{AdamWTensor{t, t, dev_.New({2, 2}), t, t}}, {}, *dev_.stream),
               std::invalid_argument);
}

}  // namespace
}  // namespace autocfg
