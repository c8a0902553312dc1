// The ops of the CUDA device, on the emulator: our own kernels, and cuBLASLt as its documentation has it, with its epilogues and without them.
#include "kernels/cuda/cuda_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_device.h"
#include "tests/conformance/ops_epilogue_suite.h"
#include "tests/conformance/ops_shape_suite.h"
#include "tests/conformance/ops_suite.h"
#include "tests/support/cuda_emulator/cublasLt.h"

namespace autocfg {
namespace {

std::unique_ptr<Device> CreateDevice() { return cuda::CreateCudaDevice(0); }

// Every launch in two orders.
std::unique_ptr<Ops> Create(bool epilogues) {
  cuda_emulator::SetOrder(cuda_emulator::Order::kCompared);
  emulated_cublaslt::Epilogues(epilogues);
  return cuda::CreateCudaOps();
}

OpsUnderTest Emulated(const char* name, DType type, bool epilogues) {
  return {name, type, CreateDevice, [epilogues] { return Create(epilogues); }, 3e-6};
}

INSTANTIATE_TEST_SUITE_P(Emulated, OpsShapeSuite, testing::Values(Emulated("cuda_fp32", DType::kF32, true)),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Emulated, OpsSuite,
                         testing::Values(Emulated("cuda_fp32", DType::kF32, true), Emulated("cuda_bf16", DType::kBF16, true)),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Emulated, OpsEpilogueSuite,
                         testing::Values(Emulated("cuda_fp32", DType::kF32, true), Emulated("cuda_bf16", DType::kBF16, true),
                                         Emulated("cuda_fp32_plain", DType::kF32, false),
                                         Emulated("cuda_bf16_plain", DType::kBF16, false)),
                         [](const auto& info) { return info.param.name; });

// What computes each shape is said, and an algorithm that does not run is not chosen.
TEST(CudaOps, SayWhatComputesEachShape) {
  emulated_cublaslt::Epilogues(true);
  const auto device = CreateDevice();
  const auto stream = device->CreateStream();
  const auto ops = cuda::CreateCudaOps();
  const auto make = [&](std::initializer_list<std::int64_t> shape) {
    Tensor t{.dtype = DType::kBF16};
    for (const std::int64_t dim : shape) t.shape[static_cast<std::size_t>(t.rank++)] = dim;
    t.data = device->Allocate(t.Bytes());
    return t;
  };
  const Tensor a = make({16, 32}), b = make({32, 24}), bias = make({24}), pre = make({16, 24}), y = make({16, 24});
  ops->MatmulActivation(Activation::kGelu, a, b, bias, pre, y, *stream);
  const Tensor narrow = make({32, 12}), narrow_bias = make({12}), narrow_pre = make({16, 12}), narrow_y = make({16, 12});
  ops->MatmulActivation(Activation::kGelu, a, narrow, narrow_bias, narrow_pre, narrow_y, *stream);
  const auto is = [](bool usual, const char* start) {
    return testing::AllOf(testing::Field(&OpChoice::usual, usual), testing::Field(&OpChoice::text, testing::StartsWith(start)));
  };
  EXPECT_THAT(cuda::ChoicesOf(*ops),
              testing::ElementsAre(is(true, "matmul bf16->bf16 nn 16x12x32 align 16: the fastest of 3 algorithms"),
                                   is(false, "matmul bf16->bf16 nn 16x12x32 gelu_bias align 16: not by cuBLASLt"),
                                   is(true, "matmul bf16->bf16 nn 16x24x32 gelu_bias align 16: the fastest of 3 algorithms")));
  for (const Tensor& t : {a, b, bias, pre, y, narrow, narrow_bias, narrow_pre, narrow_y}) device->Free(t.data, t.Bytes());
}

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
    const auto ops = cuda::CreateCudaOps();
    const auto stream = CreateDevice()->CreateStream();
    EXPECT_EQ(ErrorOf([&] { ops->ResidualAdd(y, y, *stream); }),
              "residual_add: the cuda device runs fp32 and bf16, not " + std::string(Name(type)));
  }
}

TEST(KernelOps, KeepStatisticsAndGradientsInF32) {
  const Tensor x{.dtype = DType::kBF16, .rank = 2, .shape = {2, 3}},
      w{.dtype = DType::kBF16, .rank = 1, .shape = {3}};
  const Tensor rstd{.dtype = DType::kF64, .rank = 1, .shape = {2}};
  const auto ops = cuda::CreateCudaOps();
  const auto stream = CreateDevice()->CreateStream();
  EXPECT_EQ(ErrorOf([&] { ops->RmsNormForward(x, w, 1e-5, x, rstd, *stream); }),
            "rms_norm_forward: the cuda device keeps statistics, gradients of parameters and optimizer "
            "states in fp32, not fp64");
  const Tensor narrow{.dtype = DType::kF32, .rank = 1, .shape = {2}};
  EXPECT_EQ(ErrorOf([&] { ops->RmsNormBackward(x, x, w, narrow, x, false, w, *stream); }),
            "rms_norm_backward: the cuda device keeps statistics, gradients of parameters and optimizer "
            "states in fp32, not bf16");
}

TEST(KernelOps, AddNothingOverNoTensors) {
  const auto ops = cuda::CreateCudaOps();
  const auto stream = CreateDevice()->CreateStream();
  ops->SumOfSquares({}, {}, *stream);
  ops->AdamW({}, {}, *stream);
}

}  // namespace
}  // namespace autocfg
