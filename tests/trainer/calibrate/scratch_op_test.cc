// Tests that an op that runs repeatedly on its own results, as in timing, keeps normal numbers that take
// normal time.
#include "trainer/calibrate/scratch_op.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "tests/trainer/calibrate/every_op.h"
#include "tests/trainer/thread_ranks.h"

namespace autocfg::trainer {
namespace {

template <typename T>
bool AllFinite(Device& device, Stream& stream, const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.Elements()));
  device.CopyToHost(values.data(), tensor.data, tensor.Bytes(), stream);
  for (const T value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

TEST(ScratchOp, StaysFiniteWhenRepeated) {
  const auto device = CreateCpuDevice();
  const auto stream = device->CreateStream();
  const auto ops = CreateCpuOps();
  TrainConfig c = test::SmallConfig();
  std::vector<OpDesc> all = OtherOps(c.workload.precision.compute);
  for (const int tp : {1, 2}) {
    c.plan = {{.tp = tp, .pp = 2}};
    const std::vector<OpDesc> more = OpsOf(c);
    all.insert(all.end(), more.begin(), more.end());
  }
  int cross_entropies = 0;
  for (const OpDesc& desc : all) {
    if (IsCommunication(desc.kind)) continue;
    cross_entropies += Name(desc.kind).starts_with("cross_entropy") ? 1 : 0;
    ScratchOp op(desc, *device, *ops, *stream);
    for (int i = 0; i < 300; ++i) op.Run();
    for (const Tensor& tensor : op.tensors()) {
      if (tensor.data == nullptr) continue;
      if (tensor.dtype == DType::kF32) {
        EXPECT_TRUE(AllFinite<float>(*device, *stream, tensor)) << ToString(desc);
      } else if (tensor.dtype == DType::kF64) {
        EXPECT_TRUE(AllFinite<double>(*device, *stream, tensor)) << ToString(desc);
      }
    }
  }
  EXPECT_GE(cross_entropies, 5) << "one of each kind";
}

// Products of repeated rows take a GPU less power, and so less time, than those of a model.
TEST(ScratchOp, RowsOfAMatrixDiffer) {
  const auto device = CreateCpuDevice();
  const auto stream = device->CreateStream();
  const auto ops = CreateCpuOps();
  for (const std::int64_t width : {1024, 4096, 12288, 16384}) {
    OpDesc product;
    product.dims = {64, 8, width};
    const ScratchOp op(product, *device, *ops, *stream);
    const Tensor& x = op.tensors()[0];
    ASSERT_EQ(x.shape[1], width);
    std::set<std::vector<float>> rows;
    for (const float* row = x.As<float>(); row < x.As<float>() + x.Elements(); row += width)
      rows.insert({row, row + width});
    EXPECT_EQ(rows.size(), 64u) << "of " << width;
    // as many values as bf16 has in that range, and some more
    EXPECT_GT(std::set<float>(x.As<float>(), x.As<float>() + x.Elements()).size(), 50'000u);
  }
}

}  // namespace
}  // namespace autocfg::trainer
