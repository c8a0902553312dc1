#include <array>
#include <stdexcept>

#include "tests/conformance/ops/ops_attention_suite.h"
#include "tests/conformance/ops/ops_cross_entropy_suite.h"
#include "tests/conformance/ops/ops_epilogue_suite.h"
#include "tests/conformance/ops/ops_gradient_suite.h"
#include "tests/conformance/ops/ops_suite.h"
#include "tests/kernels/implementations.h"

namespace autocfg {
namespace {

INSTANTIATE_TEST_SUITE_P(Implementations, OpsSuite,
                         testing::Values(CpuF32(), CpuF32WithBf16Gradients(), CpuF64(), AwaitedCpuF64()),
                         TestName);
INSTANTIATE_TEST_SUITE_P(Implementations, OpsAttentionSuite,
                         testing::Values(CpuF32(), CpuF64(), AwaitedCpuF64()), TestName);
INSTANTIATE_TEST_SUITE_P(Implementations, OpsCrossEntropySuite,
                         testing::Values(CpuF32(), CpuF64(), AwaitedCpuF64()), TestName);
INSTANTIATE_TEST_SUITE_P(Implementations, OpsEpilogueSuite,
                         testing::Values(CpuF32(), CpuF32WithBf16Gradients(), CpuF64(), AwaitedCpuF64()),
                         TestName);
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
  EXPECT_THROW(dev_.ops->Scale(half, 2, half, *dev_.stream), std::invalid_argument);
}

// A rank that keeps gradients in bf16 fills, adds and squares them.
TEST_F(CpuTypes, ComputesOnGradientsInBf16) {
  const Tensor half = dev_.New({2, 2}, DType::kBF16);
  dev_.ops->Fill(half, 1.001, *dev_.stream);
  EXPECT_EQ(dev_.Get(half), Values(4, 1)) << "rounded";
  dev_.ops->ResidualAdd(half, dev_.Put({2, 2}, {0.5, 1, 0x1p-9, 255}, DType::kBF16), *dev_.stream);
  EXPECT_EQ(dev_.Get(half), (Values{1.5, 2, 1, 256}));
  const Tensor sum = dev_.Put({1}, {1}, DType::kF64);
  dev_.ops->SumOfSquares(std::array{half}, sum, *dev_.stream);
  EXPECT_EQ(dev_.Get(sum)[0], 1 + 2.25 + 4 + 1 + 65536);
}

TEST_F(CpuTypes, RejectsMixedTypes) {
  const Tensor narrow = dev_.New({2, 2}), wide = dev_.New({2, 2}, DType::kF64);
  EXPECT_THROW(dev_.ops->Matmul(narrow, Transpose::kNo, narrow, Transpose::kNo, wide, false, *dev_.stream),
               std::invalid_argument);
  EXPECT_THROW(
      dev_.ops->MatmulBiasGradient(narrow, narrow, wide, dev_.New({2}, DType::kF64), true, *dev_.stream),
      std::invalid_argument);
  EXPECT_THROW(dev_.ops->AdamW(std::array{UpdatedTensor{narrow, wide, {}, narrow, narrow}}, {}, *dev_.stream),
               std::invalid_argument);
}

TEST_F(CpuTypes, RejectsMasterCopies) {
  const Tensor t = dev_.New({2, 2});
  EXPECT_THROW(dev_.ops->AdamW(std::array{UpdatedTensor{t, t, dev_.New({2, 2}), t, t}}, {}, *dev_.stream),
               std::invalid_argument);
}

}  // namespace
}  // namespace autocfg
