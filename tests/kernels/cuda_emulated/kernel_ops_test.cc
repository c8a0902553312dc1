// The ops of the CUDA engine's own kernels, on the emulator.
#include "kernels/cuda/kernel_ops.h"

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_device.h"
#include "tests/conformance/ops_suite.h"
#include "tests/kernels/cuda_emulated/emulated_ops.h"

namespace autocfg {
namespace {

std::unique_ptr<Device> CreateDevice() { return cuda::CreateCudaDevice(0); }

// Every launch in two orders.
std::unique_ptr<Ops> Create() {
  cuda_emulator::SetOrder(cuda_emulator::Order::kCompared);
  return std::make_unique<cuda::EmulatedOps>();
}

OpsUnderTest EmulatedF32() { return {"cuda_fp32", DType::kF32, CreateDevice, Create, 3e-6}; }
OpsUnderTest EmulatedBF16() { return {"cuda_bf16", DType::kBF16, CreateDevice, Create, 3e-6}; }

INSTANTIATE_TEST_SUITE_P(Emulated, OpsSuite, testing::Values(EmulatedF32(), EmulatedBF16()),
                         [](const auto& info) { return info.param.name; });

// What `call` throws.
template <typename Call>
std::string ErrorOf(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(KernelOps, RefuseOtherTypesByName) {
  for (const DType type : {DType::kF64, DType::kF16}) {
    Tensor y{.dtype = type, .rank = 2, .shape = {2, 3}};
    cuda::EmulatedOps ops;
    const auto stream = CreateDevice()->CreateStream();
    EXPECT_EQ(ErrorOf([&] { ops.ResidualAdd(y, y, *stream); }),
              "residual_add: the cuda device runs fp32 and bf16, not " + std::string(Name(type)));
  }
}

TEST(KernelOps, KeepStatisticsAndGradientsInF32) {
  const Tensor x{.dtype = DType::kBF16, .rank = 2, .shape = {2, 3}},
      w{.dtype = DType::kBF16, .rank = 1, .shape = {3}};
  const Tensor rstd{.dtype = DType::kF64, .rank = 1, .shape = {2}};
  cuda::EmulatedOps ops;
  const auto stream = CreateDevice()->CreateStream();
  EXPECT_EQ(ErrorOf([&] { ops.RmsNormForward(x, w, 1e-5, x, rstd, *stream); }),
            "rms_norm_forward: the cuda device keeps statistics, gradients of parameters and optimizer "
            "states in fp32, not fp64");
  const Tensor narrow{.dtype = DType::kF32, .rank = 1, .shape = {2}};
  EXPECT_EQ(ErrorOf([&] { ops.RmsNormBackward(x, x, w, narrow, x, false, w, *stream); }),
            "rms_norm_backward: the cuda device keeps statistics, gradients of parameters and optimizer "
            "states in fp32, not bf16");
}

TEST(KernelOps, AddNothingOverNoTensors) {
  cuda::EmulatedOps ops;
  const auto stream = CreateDevice()->CreateStream();
  ops.SumOfSquares({}, {}, *stream);
  ops.AdamW({}, {}, *stream);
}

}  // namespace
}  // namespace autocfg
