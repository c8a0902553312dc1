#include "kernels/dry/dry_device.h"
#include "tests/conformance/ops/ops_shape_suite.h"
#include "tests/kernels/implementations.h"

namespace autocfg {
namespace {

OpsUnderTest Dry() {
  auto log = std::make_shared<OpLog>();
  // The second function owns the log as long as the parameter lives, which is longer than any ops created
  // from it.
  return {"dry", DType::kF32, CreateDryDevice, [log] { return CreateDryOps(*log); }, 0};
}

INSTANTIATE_TEST_SUITE_P(Implementations, OpsShapeSuite, testing::Values(CpuF32(), CpuF64(), Dry()),
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
