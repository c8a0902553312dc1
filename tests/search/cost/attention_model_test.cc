// Compares unfused attention with hand-computed sums of its kernels.
#include "gtest/gtest.h"
#include "search/cost/op_times/compute_model.h"

namespace autocfg {
namespace {

constexpr double kFlopsPerS = 5e13, kBytesPerS = 5e11, kOverhead = 1e-3;
constexpr MatmulDevice kDevice = {.flops_per_s = kFlopsPerS, .bytes_per_s = kBytesPerS};
constexpr double kBatch = 2, kSeq = 512, kHeads = 10, kGroups = 5;
constexpr double kScores = kBatch * kHeads * kSeq * kSeq;

OpDesc AttentionOp(OpKind kind, std::int64_t head_dim, DType dtype = DType::kBF16) {
  return {.kind = kind, .dtype = dtype, .dims = {2, 512, 10, head_dim, 5}};
}

double Seconds(OpKind kind, std::int64_t head_dim, DType dtype = DType::kBF16) {
  return UnfusedAttentionSeconds(AttentionOp(kind, head_dim, dtype), kDevice, kOverhead);
}

// Each product moves the scores, one tensor of all heads and one of all groups once each, as operands or
// result. The softmax reads and writes the scores; its gradient reads the probabilities and their gradient
// and writes the scores' gradient. Dropout reads and writes the scores, with a one-byte mask, in both
// directions.
TEST(UnfusedAttention, MemoryBoundTimeSumsKernelBytes) {
  for (const auto& [dtype, e] : {std::pair(DType::kBF16, 2.0), std::pair(DType::kF32, 4.0)}) {
    const double rows = kBatch * kSeq * 16;
    const double product = e * (kScores + rows * kHeads + rows * kGroups);
    const double dropout = (2 * e + 1) * kScores;
    const double forward = 2 * product + 2 * e * kScores + dropout;
    const double backward = 4 * product + 3 * e * kScores + dropout;
    EXPECT_DOUBLE_EQ(Seconds(OpKind::kUnfusedAttentionForward, 16, dtype),
                     forward / kBytesPerS + 4 * kOverhead);
    EXPECT_DOUBLE_EQ(Seconds(OpKind::kUnfusedAttentionBackward, 16, dtype),
                     backward / kBytesPerS + 6 * kOverhead);
  }
}

// Long heads: the products take their FLOPs (full, not causal); the passes over the scores take their bytes.
TEST(UnfusedAttention, ComputeBoundTimeCountsTwoAndFourProducts) {
  const double product = 2 * kScores * 4096 / kFlopsPerS;
  EXPECT_DOUBLE_EQ(Seconds(OpKind::kUnfusedAttentionForward, 4096),
                   2 * product + (4 + 5) * kScores / kBytesPerS + 4 * kOverhead);
  EXPECT_DOUBLE_EQ(Seconds(OpKind::kUnfusedAttentionBackward, 4096),
                   4 * product + (6 + 5) * kScores / kBytesPerS + 6 * kOverhead);
}

// One kernel takes the longer of its arithmetic and its bytes.
TEST(FusedAttention, TakesTheLongerOfArithmeticAndBytes) {
  const OpDesc op = AttentionOp(OpKind::kAttentionForward, 64);
  const double flops = 4 * kScores * 64;
  const double rows = kBatch * kSeq * 64 * 2;  // q, k and v read once, the output written once
  EXPECT_DOUBLE_EQ(FusedAttentionSeconds(op, {1e12, 0, kBytesPerS}, kOverhead), flops / 1e12 + kOverhead);
  EXPECT_GE(FusedAttentionSeconds(op, {1e18, 0, 1e9}, kOverhead),
            rows * (2 * kHeads + 2 * kGroups) / 1e9 + kOverhead);
}

// The rates are those of a head dim of 128; below, the work on each score weighs more.
TEST(FusedAttention, SmallHeadDimsReachLessOfTheRate) {
  const auto seconds = [](std::int64_t head_dim, double half) {
    return FusedAttentionSeconds(AttentionOp(OpKind::kAttentionForward, head_dim), {1e12, half, 1e15}, 0);
  };
  EXPECT_DOUBLE_EQ(seconds(128, 64), seconds(128, 0));
  EXPECT_DOUBLE_EQ(seconds(64, 64), seconds(64, 0) * 2 / 1.5);
  EXPECT_DOUBLE_EQ(seconds(256, 64), seconds(256, 0) * 1.25 / 1.5);
}

}  // namespace
}  // namespace autocfg
