// Tests which of the library's algorithms a matrix product uses, on the emulated cuBLASLt.
#include "kernels/cuda/matmul/matmul.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "kernels/device.h"
#include "tests/conformance/ops/ops_fixture.h"
#include "tests/kernels/cuda_kernels/device_array.h"

namespace autocfg::cuda {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kWorkspace = 1 << 20;

class Matmul : public ::testing::Test {
 protected:
  ~Matmul() override {
    emulated_cublaslt::Fail(CUBLAS_STATUS_SUCCESS);
    unsetenv("AUTOCFG_MATMUL");
  }
  // AUTOCFG_MATMUL for the LtMatmul made next; null: not set.
  static void SetMode(const char* mode) {
    if (mode == nullptr) {
      unsetenv("AUTOCFG_MATMUL");
    } else {
      setenv("AUTOCFG_MATMUL", mode, 1);
    }
  }

  Scratch scratch_;
};

constexpr std::int64_t kRows = 8, kColumns = 8, kDepth = 64;

MatmulKey Key(DType operands, DType result) {
  return {.m = kRows, .n = kColumns, .k = kDepth, .operands = operands, .result = result};
}

// A product whose sums are 1. The first half of each is 257, which bf16 cannot hold: it rounds to 256. The
// second half is -256.
Values HalvesThatCancel() {
  Values a(kRows * kDepth, 0);
  for (std::int64_t row = 0; row < kRows; ++row) {
    a[static_cast<std::size_t>(row * kDepth)] = 256;
    a[static_cast<std::size_t>(row * kDepth + 1)] = 1;
    a[static_cast<std::size_t>(row * kDepth + kDepth - 1)] = -256;
  }
  return a;
}

// Partial sums of a product that is split along k are kept in fp32, whatever the type of the result.
TEST_F(Matmul, KeepsPartialSumsInTheComputeType) {
  const DeviceArray<__nv_bfloat16> a(HalvesThatCancel()), b(Values(kDepth * kColumns, 1)),
      d(kRows * kColumns);
  for (const char* mode : {"heuristic", "apart", static_cast<const char*>(nullptr)}) {
    SetMode(mode);
    LtMatmul matmul(scratch_, kWorkspace);
    matmul.Run(Key(DType::kBF16, DType::kBF16), {.a = a.data(), .b = b.data(), .d = d.data()}, nullptr);
    EXPECT_THAT(d.Get(), Each(1.0)) << (mode == nullptr ? "not set" : mode);
  }
}

// The emulated library ends the process if a bias has no type. It refuses one that is not the result's.
TEST_F(Matmul, NamesTheTypeOfABias) {
  const DeviceArray<__nv_bfloat16> a(Values(kRows * kDepth, 1)), b(Values(kDepth * kColumns, 2)),
      bias(Values(kColumns, 3)), d(kRows * kColumns);
  const DeviceArray<float> sums(kColumns), wide(kRows * kColumns);
  LtMatmul matmul(scratch_, kWorkspace);
  MatmulKey key = Key(DType::kBF16, DType::kBF16);
  key.epilogue = LtEpilogue::kBias;
  matmul.Run(key, {.a = a.data(), .b = b.data(), .d = d.data(), .bias = bias.data()}, nullptr);
  EXPECT_THAT(d.Get(), Each(2.0 * kDepth + 3));
  key = Key(DType::kBF16, DType::kF32);
  key.epilogue = LtEpilogue::kBiasGradient;
  matmul.Run(key, {.a = a.data(), .b = b.data(), .d = wide.data(), .bias = sums.data()}, nullptr);
  EXPECT_THAT(sums.Get(), Each(2.0 * kDepth));
}

// Makes the algorithm (1 or 3) the one that a new LtMatmul takes.
void Prefer(int algorithm) {
  emulated_cublaslt::Fail(CUBLAS_STATUS_EXECUTION_FAILED, algorithm == 1 ? 3 : 1);
}

// The library may refuse an algorithm on operands other than those that it was chosen with. Then another one
// computes the product, once, and the rank's log says so.
TEST_F(Matmul, ReplacesAnAlgorithmThatIsRefusedLater) {
  const DeviceArray<float> a(Values(kRows * kDepth, 1)), b(Values(kDepth * kColumns, 2)),
      d(Values(kRows * kColumns, 5)), other(Values(kRows * kColumns, 7));
  for (const cublasStatus_t refusal : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE}) {
    for (const bool timed : {true, false}) {
      SetMode(timed ? nullptr : "heuristic");
      LtMatmul matmul(scratch_, kWorkspace);
      MatmulKey key = Key(DType::kF32, DType::kF32);
      key.accumulate = true;
      const int first = timed ? 3 : 1;
      if (timed) Prefer(first);
      std::fill_n(d.data(), kRows * kColumns, 5.0F);
      std::fill_n(other.data(), kRows * kColumns, 7.0F);
      matmul.Run(key, {.a = a.data(), .b = b.data(), .d = d.data()}, nullptr);
      EXPECT_THAT(d.Get(), Each(5 + 2.0 * kDepth));
      for (const OpChoice& choice : matmul.Choices()) EXPECT_FALSE(choice.own) << choice.text;

      emulated_cublaslt::Fail(refusal, first);
      matmul.Run(key, {.a = a.data(), .b = b.data(), .d = other.data()}, nullptr);
      EXPECT_THAT(other.Get(), Each(7 + 2.0 * kDepth)) << "added once";
      const std::string words = cublasLtGetStatusString(refusal);
      EXPECT_THAT(
          matmul.Choices(),
          ElementsAre(AllOf(Field(&OpChoice::usual, false), Field(&OpChoice::own, true),
                            Field(&OpChoice::text,
                                  "matmul fp32->fp32 nn 8x8x64 acc align 16: the first of 3 algorithms that "
                                  "accepts its operands; the algorithm chosen first answered \"" +
                                      words + "\" on them"))));

      // A second refusal is an error: an algorithm that is replaced again and again hides a fault.
      emulated_cublaslt::Fail(refusal, timed ? 1 : 3);
      try {
        matmul.Run(key, {.a = a.data(), .b = b.data(), .d = d.data()}, nullptr);
        FAIL() << "replaced twice";
      } catch (const DeviceError& error) {
        EXPECT_THAT(error.what(), AllOf(StartsWith("cuBLASLt: matmul fp32->fp32 nn 8x8x64 acc align 16"),
                                        EndsWith(" failed: " + words), HasSubstr("second")));
      }
      EXPECT_THAT(d.Get(), Each(5 + 2.0 * kDepth)) << "not changed";
      emulated_cublaslt::Fail(CUBLAS_STATUS_SUCCESS);
    }
  }
}

TEST_F(Matmul, SaysThatNoOtherAlgorithmAccepts) {
  const DeviceArray<float> a(Values(kRows * kDepth, 1)), b(Values(kDepth * kColumns, 2)), d(kRows * kColumns);
  LtMatmul matmul(scratch_, kWorkspace);
  const MatmulKey key = Key(DType::kF32, DType::kF32);
  const MatmulOperands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  matmul.Run(key, operands, nullptr);
  emulated_cublaslt::Fail(CUBLAS_STATUS_INVALID_VALUE);
  try {
    matmul.Run(key, operands, nullptr);
    FAIL() << "nothing was thrown";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "cuBLASLt: matmul fp32->fp32 nn 8x8x64 align 16 failed: invalid value; none of its 3 "
                 "algorithms accepts the operands: invalid value; not supported");
  }
  emulated_cublaslt::Fail(CUBLAS_STATUS_SUCCESS);
  EXPECT_NO_THROW(matmul.Run(key, operands, nullptr)) << "nothing is kept of it";
}

// A fault is not a refusal: no other algorithm hides it.
TEST_F(Matmul, DoesNotReplaceAnAlgorithmThatFails) {
  const DeviceArray<float> a(Values(kRows * kDepth, 1)), b(Values(kDepth * kColumns, 2)), d(kRows * kColumns);
  for (const cublasStatus_t fault : {CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR}) {
    SetMode("heuristic");
    LtMatmul matmul(scratch_, kWorkspace);
    const MatmulKey key = Key(DType::kF32, DType::kF32);
    const MatmulOperands operands{.a = a.data(), .b = b.data(), .d = d.data()};
    matmul.Run(key, operands, nullptr);
    emulated_cublaslt::Fail(fault, 1);
    EXPECT_THROW(matmul.Run(key, operands, nullptr), DeviceError);
    emulated_cublaslt::Fail(CUBLAS_STATUS_SUCCESS);
  }
}

}  // namespace
}  // namespace autocfg::cuda
