// The ops of the CUDA device on the emulator: our own kernels, and cuBLASLt emulated from its documentation,
// with and without its epilogues.
#include "kernels/cuda/ops/cuda_ops.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/device/cuda_device.h"
#include "tests/conformance/ops/ops_attention_suite.h"
#include "tests/conformance/ops/ops_cross_entropy_suite.h"
#include "tests/conformance/ops/ops_epilogue_suite.h"
#include "tests/conformance/ops/ops_suite.h"
#include "tests/support/cuda_emulator/cublasLt.h"

namespace autocfg {
namespace {

std::unique_ptr<Device> CreateDevice() { return cuda::CreateCudaDevice(0); }

// Uses little workspace, because the emulator compares all memory after each kernel.
std::unique_ptr<Ops> CreateOps() { return cuda::CreateCudaOpsWithWorkspace(1 << 20); }

// Runs every launch in two orders.
std::unique_ptr<Ops> Create(bool epilogues) {
  cuda_emulator::SetOrder(cuda_emulator::OrderOfTests());
  emulated_cublaslt::Epilogues(epilogues);
  return CreateOps();
}

OpsUnderTest Emulated(const char* name, DType type, bool epilogues) {
  return {name, type, CreateDevice, [epilogues] { return Create(epilogues); }, 3e-6};
}

// Keeps gradients of parameters in bf16.
OpsUnderTest WithBf16Gradients() {
  OpsUnderTest ops = Emulated("cuda_bf16_gradients", DType::kBF16, true);
  ops.gradients = DType::kBF16;
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Emulated, OpsSuite,
                         testing::Values(Emulated("cuda_fp32", DType::kF32, true),
                                         Emulated("cuda_bf16", DType::kBF16, true), WithBf16Gradients()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Emulated, OpsAttentionSuite,
                         testing::Values(Emulated("cuda_fp32", DType::kF32, true),
                                         Emulated("cuda_bf16", DType::kBF16, true)),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Emulated, OpsCrossEntropySuite,
                         testing::Values(Emulated("cuda_fp32", DType::kF32, true),
                                         Emulated("cuda_bf16", DType::kBF16, true)),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Emulated, OpsEpilogueSuite,
                         testing::Values(Emulated("cuda_fp32", DType::kF32, true),
                                         Emulated("cuda_bf16", DType::kBF16, true), WithBf16Gradients(),
                                         Emulated("cuda_fp32_plain", DType::kF32, false),
                                         Emulated("cuda_bf16_plain", DType::kBF16, false)),
                         [](const auto& info) { return info.param.name; });

// The emulated library aborts if rows of the auxiliary matrix are not multiples of 8, or a bias has no type.
// So only LtMatmul prevents the ops from requesting either; OpsEpilogueSuite has such shapes and passes.
TEST(CublasLtDeathTest, AbortsOnMisalignedAuxRowsAndOnABiasWithoutType) {
  cublasLtMatmulDescOpaque_t product{};
  cublasLtMatrixLayoutOpaque_t layout{};
  cublasLtMatmulPreferenceOpaque_t preference{};
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  ASSERT_EQ(cublasLtMatmulDescInit(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, 12, 12, 12), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulPreferenceInit(&preference), CUBLAS_STATUS_SUCCESS);
  const auto ask = [&](cublasLtEpilogue_t epilogue) {
    product.epilogue = epilogue;
    product.aux_ld = 12;
    return cublasLtMatmulAlgoGetHeuristic(nullptr, &product, &layout, &layout, &layout, &layout, &preference,
                                          1, &found, &count);
  };
  for (const auto epilogue : {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BGRADA})
    EXPECT_DEATH((void)ask(epilogue), "a bias without its data type");
  product.bias_type = CUDA_R_32F;
  EXPECT_EQ(ask(CUBLASLT_EPILOGUE_BIAS), CUBLAS_STATUS_SUCCESS);
  product.bias_type = CUDA_R_16BF;
  EXPECT_EQ(ask(CUBLASLT_EPILOGUE_BIAS), CUBLAS_STATUS_INVALID_VALUE);
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU})
    EXPECT_DEATH((void)ask(epilogue), "leading dimension of 12 for 12 rows: it must be a multiple of 8");
}

// The implementation of each shape is reported, and an algorithm that does not run is not chosen.
TEST(CudaOps, ReportTheImplementationOfEachShape) {
  emulated_cublaslt::Epilogues(true);
  emulated_cublaslt::Slow(false, true);
  const auto device = CreateDevice();
  const auto stream = device->CreateStream();
  const auto ops = CreateOps();
  const auto make = [&](std::initializer_list<std::int64_t> shape) {
    Tensor t{.dtype = DType::kBF16};
    for (const std::int64_t dim : shape) t.shape[static_cast<std::size_t>(t.rank++)] = dim;
    t.data = device->Allocate(t.Bytes());
    return t;
  };
  const Tensor a = make({16, 32}), b = make({32, 24}), bias = make({24}), pre = make({16, 24}),
               y = make({16, 24});
  ops->MatmulActivation(Activation::kGelu, a, b, bias, pre, y, *stream);
  const Tensor narrow = make({32, 12}), narrow_bias = make({12}), narrow_pre = make({16, 12}),
               narrow_y = make({16, 12});
  ops->MatmulActivation(Activation::kGelu, a, narrow, narrow_bias, narrow_pre, narrow_y, *stream);
  const auto is = [](bool usual, const char* start) {
    return testing::AllOf(testing::Field(&OpChoice::usual, usual),
                          testing::Field(&OpChoice::text, testing::StartsWith(start)));
  };
  EXPECT_THAT(
      cuda::ChoicesOf(*ops),
      testing::ElementsAre(
          is(true, "matmul bf16->bf16 nn 16x12x32 align 16: the fastest of 3 algorithms"),
          is(false,
             "matmul bf16->bf16 nn 16x12x32 gelu_bias align 16: not by cuBLASLt: rows of the auxiliary "
             "matrix must be multiples of 8 elements"),
          is(true, "matmul bf16->bf16 nn 16x24x32 align 16: the fastest of 3 algorithms"),
          is(true, "matmul bf16->bf16 nn 16x24x32 gelu_bias align 16: the fastest of 3 algorithms")));
  emulated_cublaslt::Slow(false, false);
  for (const Tensor& t : {a, b, bias, pre, y, narrow, narrow_bias, narrow_pre, narrow_y})
    device->Free(t.data, t.Bytes());
}

// Returns all results of each op with a product, concatenated bias by bias and element by element.
std::vector<float> ResultsOfProducts(Ops& ops) {
  const auto device = CreateDevice();
  const auto stream = device->CreateStream();
  std::vector<Tensor> tensors;
  std::vector<float> results;
  const auto make = [&](std::int64_t rows, std::int64_t columns) {
    Tensor t{
        .dtype = DType::kF32, .rank = rows > 0 ? 2 : 1, .shape = {std::max<std::int64_t>(rows, 1), columns}};
    if (rows == 0) t.shape = {columns};
    t.data = device->Allocate(t.Bytes());
    for (std::int64_t i = 0; i < t.Elements(); ++i)
      t.As<float>()[i] = static_cast<float>((i * 7 + rows) % 11) - 5;
    tensors.push_back(t);
    return t;
  };
  const Tensor x = make(16, 32), w = make(32, 24), bias = make(0, 24), c = make(16, 24), pre = make(16, 24),
               y = make(16, 24);
  const Tensor dy = make(16, 24), sum = make(16, 24), dw = make(32, 24), dbias = make(0, 24),
               back = make(32, 24), dpre = make(16, 32), before = make(16, 32);
  ops.MatmulBias(x, w, bias, c, *stream);
  ops.MatmulResidual(x, w, bias, dy, sum, *stream);
  ops.MatmulActivation(Activation::kGelu, x, w, bias, pre, y, *stream);
  ops.MatmulActivationBackward(Activation::kGelu, dy, back, before, dpre, *stream);
  ops.MatmulBiasGradient(x, dy, dw, dbias, true, *stream);
  stream->Synchronize();
  for (const Tensor& t : {c, sum, pre, y, dpre, dw, dbias})
    results.insert(results.end(), t.As<float>(), t.As<float>() + t.Elements());
  for (const Tensor& t : tensors) device->Free(t.data, t.Bytes());
  return results;
}

// An epilogue that is slower than a plain product plus our kernel is not used, and trying it changes no
// result.
TEST(CudaOps, ChooseTheFasterOfEpilogueAndKernel) {
  emulated_cublaslt::Epilogues(false);
  const std::vector<float> want = ResultsOfProducts(*CreateOps());
  emulated_cublaslt::Epilogues(true);
  for (const bool slow_epilogues : {true, false}) {
    emulated_cublaslt::Slow(slow_epilogues, !slow_epilogues);
    const auto ops = CreateOps();
    const std::vector<float> got = ResultsOfProducts(*ops);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (slow_epilogues) {
        ASSERT_EQ(got[i], want[i]) << i;
      } else {
        ASSERT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << i;
      }
    }
    int apart = 0;
    for (const OpChoice& choice : cuda::ChoicesOf(*ops)) {
      EXPECT_TRUE(choice.usual) << choice.text;
      if (choice.text.find(": separate product and kernel, ") != std::string::npos) ++apart;
    }
    EXPECT_EQ(apart, slow_epilogues ? 5 : 0);
  }
  emulated_cublaslt::Slow(false, false);
}

// Sets AUTOCFG_MATMUL for the lifetime of the object.
class MatmulVariable {
 public:
  explicit MatmulVariable(const char* value) { setenv("AUTOCFG_MATMUL", value, 1); }
  ~MatmulVariable() { unsetenv("AUTOCFG_MATMUL"); }
};

// The mode that separates library and own kernels uses no epilogue of the library, and reports that.
TEST(CudaOps, UseNoEpiloguesInApartMode) {
  emulated_cublaslt::Epilogues(false);
  const std::vector<float> want = ResultsOfProducts(*CreateOps());
  emulated_cublaslt::Epilogues(true);
  emulated_cublaslt::Slow(false, true);  // without the forced mode, epilogues would be chosen
  const MatmulVariable forced("apart");
  const auto ops = CreateOps();
  EXPECT_EQ(ResultsOfProducts(*ops), want);
  emulated_cublaslt::Slow(false, false);
  int refused = 0, timed = 0;
  for (const OpChoice& choice : cuda::ChoicesOf(*ops)) {
    if (choice.usual) {
      EXPECT_THAT(choice.text, testing::HasSubstr(": the fastest of 3 algorithms"));
      ++timed;
    } else {
      EXPECT_THAT(choice.text, testing::EndsWith(": not by cuBLASLt: AUTOCFG_MATMUL=apart"));
      ++refused;
    }
  }
  EXPECT_EQ(refused, 5);
  EXPECT_GE(timed, 3);
}

TEST(CudaOps, RejectUnknownMatmulMode) {
  const MatmulVariable forced("fast");
  try {
    CreateOps();
    FAIL() << "AUTOCFG_MATMUL was not read";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(), "AUTOCFG_MATMUL is \"fast\"; it must be heuristic or apart, or not set");
  }
}

TEST(CudaOps, EmptyMatmulModeMeansDefault) {
  const MatmulVariable empty("");
  EXPECT_NO_THROW(CreateOps());
}

// If there is no memory for a second result, an accumulating product is not timed; its sum is still correct.
TEST(CudaOps, DoNotTimeWithoutSpareMemory) {
  const auto device = CreateDevice();
  const auto ops = CreateOps();
  const auto stream = device->CreateStream();
  const auto make = [&](std::int64_t rows, std::int64_t columns, float value) {
    Tensor t{.dtype = DType::kF32, .rank = 2, .shape = {rows, columns}};
    t.data = device->Allocate(t.Bytes());
    std::fill_n(t.As<float>(), t.Elements(), value);
    return t;
  };
  const Tensor a = make(4, 8, 1), b = make(8, 8, 2), sum = make(4, 8, 3);
  cuda_emulator::SetFreeMemory(1 << 20);
  ops->Matmul(a, Transpose::kNo, b, Transpose::kNo, sum, true, *stream);
  cuda_emulator::SetFreeMemory(1 << 29);
  stream->Synchronize();
  EXPECT_EQ(sum.As<float>()[31], 19);
  EXPECT_THAT(
      cuda::ChoicesOf(*ops),
      testing::ElementsAre(testing::Field(
          &OpChoice::text, testing::EndsWith("the first of 3 algorithms, not timed: the GPU has no memory "
                                             "left for a second result"))));
  for (const Tensor& t : {a, b, sum}) device->Free(t.data, t.Bytes());
}

// Runs a product. Returns an empty string, or the error's type and message.
std::string HowAProductGoes(Ops& ops, Device& device) {
  const auto stream = device.CreateStream();
  Tensor t{.dtype = DType::kF32, .rank = 2, .shape = {8, 8}}, sum = t;
  t.data = device.Allocate(t.Bytes());
  sum.data = device.Allocate(sum.Bytes());
  std::string how;
  try {
    ops.Matmul(t, Transpose::kNo, t, Transpose::kNo, sum, false, *stream);
  } catch (const DeviceOutOfMemory& error) {
    how = fmt::format("out of memory, {} free: {}", error.available_bytes, error.what());
  } catch (const DeviceError& error) {
    how = fmt::format("error: {}", error.what());
  }
  device.Free(t.data, t.Bytes());
  device.Free(sum.data, sum.Bytes());
  return how;
}

// A plan that nearly fills the GPU fails in the libraries, which load their kernels at first use. This must
// be reported as lack of memory, not as a fault.
TEST(CudaOps, ThrowOutOfMemoryWhileTiming) {
  const auto device = CreateDevice();
  // the other algorithms do not matter: the first one without room decides
  for (const int algorithm : {0, 1, 3}) {
    emulated_cublaslt::Fail(CUBLAS_STATUS_ALLOC_FAILED, algorithm);
    EXPECT_THAT(
        HowAProductGoes(*CreateOps(), *device),
        testing::AllOf(testing::StartsWith("out of memory"), testing::HasSubstr("allocation failed")));
  }
  const auto ops = CreateOps();
  for (const cublasStatus_t status :
       {CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR}) {
    emulated_cublaslt::Fail(status);
    cuda_emulator::SetFreeMemory(1 << 20);
    EXPECT_THAT(HowAProductGoes(*ops, *device), testing::StartsWith("out of memory, 10"));
  }
  cuda_emulator::SetFreeMemory(1 << 29);
  emulated_cublaslt::Fail(CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(HowAProductGoes(*ops, *device), "") << "nothing is kept of it";
  emulated_cublaslt::Fail(CUBLAS_STATUS_ALLOC_FAILED);
  EXPECT_THAT(HowAProductGoes(*ops, *device), testing::StartsWith("out of memory")) << "in a step, too";
  emulated_cublaslt::Fail(CUBLAS_STATUS_SUCCESS);
}

TEST(CudaOps, ReportWhyEachAlgorithmFailed) {
  const auto device = CreateDevice();
  emulated_cublaslt::Fail(CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(
      HowAProductGoes(*CreateOps(), *device),
      "error: cuBLASLt: no matmul fp32->fp32 nn 8x8x8 align 16: none of its 3 algorithms runs: execution "
      "failed; not supported");
  emulated_cublaslt::Fail(CUBLAS_STATUS_EXECUTION_FAILED, 1);
  EXPECT_EQ(HowAProductGoes(*CreateOps(), *device), "") << "the third runs";
  emulated_cublaslt::Fail(CUBLAS_STATUS_SUCCESS);
}

// Choosing algorithms frees no device memory, because freeing waits for all work of the device, including
// peers. Memory that was allocated for choosing is freed between steps.
TEST(CudaOps, FreeNothingWithinAStep) {
  const auto device = CreateDevice();
  const auto stream = device->CreateStream();
  const auto ops = CreateOps();
  const std::int64_t before = device->OverheadBytes(0);  // includes the workspace
  const auto make = [&](DType type, std::initializer_list<std::int64_t> shape) {
    Tensor t{.dtype = type};
    for (const std::int64_t dim : shape) t.shape[static_cast<std::size_t>(t.rank++)] = dim;
    t.data = device->Allocate(t.Bytes());
    return t;
  };
  const Tensor x = make(DType::kBF16, {2, 8}), dy = make(DType::kBF16, {2, 24}),
               dw = make(DType::kF32, {8, 24}), dbias = make(DType::kF32, {24});
  const std::vector<Tensor> tensors = {x, dy, dw, dbias};
  std::int64_t of_tensors = 0;
  for (const Tensor& t : tensors) of_tensors += t.Bytes();

  const int frees = cuda_emulator::Waits().frees;
  ops->Matmul(x, Transpose::kYes, dy, Transpose::kNo, dw, true, *stream);
  ops->MatmulBiasGradient(x, dy, dw, dbias, true, *stream);
  EXPECT_EQ(cuda_emulator::Waits().frees, frees);
  for (const OpChoice& choice : cuda::ChoicesOf(*ops)) EXPECT_TRUE(choice.usual) << choice.text;
  EXPECT_EQ(device->OverheadBytes(0), before + of_tensors + dw.Bytes());

  ops->ReleaseSpare();
  EXPECT_EQ(cuda_emulator::Waits().frees, frees + 1);
  EXPECT_EQ(device->OverheadBytes(0), before + of_tensors);
  for (const Tensor& t : tensors) device->Free(t.data, t.Bytes());
}

// Returns the error that `call` throws.
template <typename Call>
std::string ErrorOf(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Fill uses the driver's memset if all bits are 0; negative zero has a set bit.
TEST(KernelOps, FillKeepsTheSignOfZero) {
  const auto device = CreateDevice();
  const auto stream = device->CreateStream();
  const auto ops = CreateOps();
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF64}) {
    Tensor t{.dtype = type, .rank = 1, .shape = {1000}};
    t.data = device->Allocate(t.Bytes() + 8);
    auto* bytes = static_cast<unsigned char*>(t.data);
    std::memset(bytes, 0xff, static_cast<std::size_t>(t.Bytes()) + 8);
    ops->Fill(t, 0, *stream);
    stream->Synchronize();
    EXPECT_EQ(std::count(bytes, bytes + t.Bytes(), 0), t.Bytes()) << Name(type);
    EXPECT_EQ(bytes[t.Bytes()], 0xff) << Name(type);
    ops->Fill(t, -0.0, *stream);
    stream->Synchronize();
    EXPECT_EQ(std::count(bytes, bytes + t.Bytes(), 0x80), 1000) << Name(type);
    device->Free(t.data, t.Bytes() + 8);
  }
}

TEST(KernelOps, RejectOtherTypesByName) {
  for (const DType type : {DType::kF64, DType::kF16}) {
    Tensor y{.dtype = type, .rank = 2, .shape = {2, 3}};
    const auto ops = CreateOps();
    const auto stream = CreateDevice()->CreateStream();
    EXPECT_EQ(ErrorOf([&] { ops->ResidualAdd(y, y, *stream); }),
              "residual_add: the cuda device runs fp32 and bf16, not " + std::string(Name(type)));
  }
}

TEST(KernelOps, RejectOtherTypesOfStatisticsAndStates) {
  const Tensor x{.dtype = DType::kBF16, .rank = 2, .shape = {2, 3}},
      w{.dtype = DType::kBF16, .rank = 1, .shape = {3}};
  const Tensor rstd{.dtype = DType::kF64, .rank = 1, .shape = {2}};
  const auto ops = CreateOps();
  const auto stream = CreateDevice()->CreateStream();
  EXPECT_EQ(ErrorOf([&] { ops->RmsNormForward(x, w, 1e-5, x, rstd, *stream); }),
            "rms_norm_forward: the cuda device keeps statistics in fp32, not fp64");
  const Tensor narrow{.dtype = DType::kF32, .rank = 1, .shape = {2}};
  const auto of = [](DType type, Tensor t) {
    t.dtype = type;
    return t;
  };
  const Tensor half = of(DType::kF16, w), wide = of(DType::kF32, w), wide_x = of(DType::kF32, x);
  EXPECT_EQ(ErrorOf([&] { ops->RmsNormBackward(x, x, w, narrow, x, false, half, true, *stream); }),
            "rms_norm_backward: the cuda device keeps no gradients in fp16 where it computes in bf16");
  EXPECT_EQ(
      ErrorOf([&] { ops->RmsNormBackward(wide_x, wide_x, wide, narrow, wide_x, false, w, true, *stream); }),
      "rms_norm_backward: the cuda device keeps no gradients in bf16 where it computes in fp32");
  EXPECT_EQ(ErrorOf([&] {
              ops->AdamW(std::array{UpdatedTensor{w, w, wide, half, half}}, {}, *stream);
            }),
            "adamw: the cuda device keeps no m in fp16 of parameters in bf16");
  EXPECT_EQ(ErrorOf([&] {
              ops->Sgd(std::array{UpdatedTensor{wide, w}}, {}, *stream);
            }),
            "sgd: the cuda device keeps no grad in bf16 of parameters in fp32");
}

TEST(KernelOps, EmptyListsAddNothing) {
  const auto ops = CreateOps();
  const auto stream = CreateDevice()->CreateStream();
  ops->SumOfSquares({}, {}, *stream);
  ops->AdamW({}, {}, *stream);
}

}  // namespace
}  // namespace autocfg
