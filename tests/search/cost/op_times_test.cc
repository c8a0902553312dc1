#include "search/cost/op_times/op_times.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "search/cost/op_times/line_fit.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::SyntheticDevice;

OpDesc Matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.kind = OpKind::kMatmul, .dims = {m, n, k, 0}};
}
OpDesc Comm(OpKind kind, CommGroup group, std::int32_t size, std::int64_t n) {
  return {.kind = kind, .group = group, .group_size = size, .dims = {n, 0, 0, 0}};
}

TEST(LineFit, RecoversALine) {
  std::vector<TimedSize> points;
  for (double x : {64.0, 4096.0, 65536.0, 1e7}) points.push_back({x, 5e-6 + x / 3e9});
  const LinkModel line = FitLine(points);
  EXPECT_NEAR(line.alpha_s, 5e-6, 1e-11);
  EXPECT_NEAR(line.beta_s_per_byte, 1 / 3e9, 1e-15);
}

TEST(LineFit, MinimizesRelativeError) {
  // A 10% error at a large size must not hide the latency that small sizes show.
  const LinkModel line = FitLine(std::vector<TimedSize>{{8, 1e-6}, {64, 1e-6}, {1e8, 0.05}, {2e8, 0.11}});
  EXPECT_NEAR(line.alpha_s, 1e-6, 1e-7);
}

TEST(LineFit, NeverNegative) {
  const LinkModel falling = FitLine(std::vector<TimedSize>{{1, 2e-6}, {1000, 1e-6}});
  EXPECT_EQ(falling.beta_s_per_byte, 0);
  EXPECT_GT(falling.alpha_s, 0);
  const LinkModel convex = FitLine(std::vector<TimedSize>{{1000, 1e-6}, {2000, 4e-6}});
  EXPECT_EQ(convex.alpha_s, 0);
  EXPECT_GT(convex.beta_s_per_byte, 0);
  const LinkModel none = FitLine({});
  EXPECT_EQ(none.Seconds(1e9), 0);
}

TEST(OpTimes, ReturnsMeasuredTimes) {
  const OpTimes times({{Matmul(64, 64, 64), 3e-5}, {Matmul(128, 64, 64), 7e-5}, {Matmul(64, 64, 64), 5e-5}});
  EXPECT_DOUBLE_EQ(times.Seconds(Matmul(64, 64, 64)), 4e-5);  // measured twice: the mean
  EXPECT_DOUBLE_EQ(times.Seconds(Matmul(128, 64, 64)), 7e-5);
  EXPECT_EQ(times.measured().size(), 2u);
}

TEST(OpTimes, HostTimeIsTheMeanOverTimedComputeOps) {
  EXPECT_EQ(OpTimes().HostOpSeconds(), 0);
  EXPECT_EQ(OpTimes({{Matmul(64, 64, 64), 3e-5}}).HostOpSeconds(), 0) << "the host computed";
  const OpDesc message{
      .kind = OpKind::kAllReduceSum, .group = CommGroup::kTensor, .group_size = 2, .dims = {64}};
  const OpTimes times({{Matmul(64, 64, 64), 3e-5, 4e-6},
                       {Matmul(128, 64, 64), 7e-5, 8e-6},
                       {Matmul(256, 64, 64), 7e-5},
                       {message, 1e-5, 1}});
  EXPECT_DOUBLE_EQ(times.HostOpSeconds(), 6e-6);
}

TEST(OpTimes, EstimatesBetweenMeasuredSizes) {
  const SyntheticDevice device;
  std::vector<OpDesc> ops;
  for (std::int64_t n : {32, 128, 512, 2048}) {
    ops.push_back(Matmul(n, n, n));
    ops.push_back({.kind = OpKind::kLayerNormForward, .dims = {n, n, 0, 0}});
  }
  const OpTimes times = device.Measure(ops);
  for (std::int64_t n : {48, 200, 1000}) {
    const OpDesc matmul = Matmul(n, 2 * n, n), norm{.kind = OpKind::kLayerNormForward, .dims = {n, n, 0, 0}};
    EXPECT_NEAR(times.Seconds(matmul) / device.Seconds(matmul), 1, 0.15) << n;
    EXPECT_NEAR(times.Seconds(norm) / device.Seconds(norm), 1, 0.15) << n;
  }
}

TEST(OpTimes, ExtrapolatesSanely) {
  const SyntheticDevice device;
  const OpTimes times = device.Measure({Matmul(64, 64, 64), Matmul(128, 128, 128), Matmul(256, 256, 256)});
  const OpDesc tiny = Matmul(1, 1, 1), huge = Matmul(16384, 16384, 16384);
  EXPECT_GT(times.Seconds(tiny), 1e-7);
  EXPECT_LT(times.Seconds(tiny), 1e-5);
  EXPECT_NEAR(times.Seconds(huge) / device.Seconds(huge), 1, 0.3);
  // A single size still gives a rate.
  const OpTimes one = device.Measure({Matmul(256, 256, 256)});
  EXPECT_NEAR(one.Seconds(Matmul(512, 512, 512)) / device.Seconds(Matmul(512, 512, 512)), 1, 0.3);
}

TEST(OpTimes, GrowsWithTheWork) {
  const SyntheticDevice device;
  const OpTimes times = device.Measure({Matmul(64, 64, 64), Matmul(512, 512, 512), Matmul(100, 2000, 30)});
  double last = 0;
  for (std::int64_t n = 8; n < 5000; n *= 2) {
    const double seconds = times.Seconds(Matmul(n, n, n));
    EXPECT_GT(seconds, last);
    last = seconds;
  }
}

TEST(OpTimes, UnmeasuredKindsAndTypes) {
  const SyntheticDevice device;
  const OpTimes times =
      device.Measure({Matmul(256, 256, 256), {.kind = OpKind::kFill, .dims = {1 << 20, 0, 0, 0}}});
  OpDesc fp64 = Matmul(256, 256, 256);
  fp64.dtype = DType::kF64;
  EXPECT_NEAR(times.Seconds(fp64) / times.Seconds(Matmul(256, 256, 256)), 2, 0.2);
  const OpDesc adamw{.kind = OpKind::kAdamW, .moments = DType::kF32, .dims = {1 << 20, 0, 0, 0}};
  EXPECT_NEAR(times.Seconds(adamw) / device.Seconds(adamw), 1, 0.2);
  EXPECT_EQ(OpTimes().Seconds(adamw), std::numeric_limits<double>::infinity());
  EXPECT_EQ(times.Seconds(Comm(OpKind::kSend, CommGroup::kPipeline, 2, 8)),
            std::numeric_limits<double>::infinity());
}

// Products of one size whose epilogues take different times. Each uses its own epilogue's times, or the plain
// product's if its epilogue was never measured.
TEST(OpTimes, ProductsByTheirEpilogue) {
  const auto product = [](Epilogue epilogue, std::int64_t n) {
    OpDesc op = Matmul(n, n, n);
    SetEpilogue(op, epilogue);
    return op;
  };
  const auto seconds = [](std::int64_t n, double factor) {
    return factor * 1e-10 * static_cast<double>(n * n * n);
  };
  std::vector<OpTime> measured;
  for (const std::int64_t n : {64, 128, 256, 512}) {
    measured.push_back({product(Epilogue::kNone, n), seconds(n, 1)});
    measured.push_back({product(Epilogue::kActivation, n), seconds(n, 1.5)});
  }
  const OpTimes times(measured);
  const double plain = times.Seconds(product(Epilogue::kNone, 200)) / seconds(200, 1);
  const double activation = times.Seconds(product(Epilogue::kActivation, 200)) / seconds(200, 1);
  const double bias = times.Seconds(product(Epilogue::kBias, 200)) / seconds(200, 1);
  EXPECT_NEAR(plain, 1, 0.05);
  EXPECT_NEAR(activation, 1.5, 0.05);
  EXPECT_NEAR(bias, plain, 0.05);
}

TEST(OpTimes, LinksByGroupAndSize) {
  std::vector<OpTime> measured;
  const auto link = [&](OpKind kind, CommGroup group, std::int32_t size, double alpha, double beta) {
    for (std::int64_t n : {16, 1024, 65536}) {
      measured.push_back({Comm(kind, group, size, n), alpha + beta * 4 * static_cast<double>(n)});
    }
  };
  link(OpKind::kAllReduceSum, CommGroup::kTensor, 2, 1e-5, 1e-9);
  link(OpKind::kAllReduceSum, CommGroup::kData, 2, 4e-5, 4e-9);
  link(OpKind::kAllReduceSum, CommGroup::kTensor, 8, 8e-5, 2e-9);
  link(OpKind::kSend, CommGroup::kPipeline, 4, 2e-6, 3e-10);
  const OpTimes times(measured);
  const double bytes = 4 * 4096;
  EXPECT_NEAR(times.Seconds(Comm(OpKind::kAllReduceSum, CommGroup::kTensor, 2, 4096)), 1e-5 + 1e-9 * bytes,
              1e-10);
  EXPECT_NEAR(times.Seconds(Comm(OpKind::kAllReduceSum, CommGroup::kData, 2, 4096)), 4e-5 + 4e-9 * bytes,
              1e-10);
  // Unmeasured sizes four and sixteen use the times of eight. The maximum uses the sum's, a receive the
  // send's.
  const double eight = 8e-5 + 2e-9 * bytes;
  EXPECT_NEAR(times.Seconds(Comm(OpKind::kAllReduceSum, CommGroup::kTensor, 4, 4096)), eight, 1e-10);
  EXPECT_NEAR(times.Seconds(Comm(OpKind::kAllReduceSum, CommGroup::kWorld, 16, 4096)), eight, 1e-10);
  EXPECT_NEAR(times.Seconds(Comm(OpKind::kAllReduceMax, CommGroup::kTensor, 8, 4096)), eight, 1e-10);
  EXPECT_NEAR(times.Seconds(Comm(OpKind::kRecv, CommGroup::kPipeline, 4, 4096)), 2e-6 + 3e-10 * bytes, 1e-12);
  EXPECT_EQ(times.Seconds(Comm(OpKind::kAllReduceSum, CommGroup::kWorld, 1, 4096)), 0);
  // A ring's sum is a reduce-scatter and a gather.
  EXPECT_NEAR(times.Seconds(Comm(OpKind::kReduceScatter, CommGroup::kTensor, 8, 4096)), eight / 2, 1e-10);
  EXPECT_NEAR(times.Seconds(Comm(OpKind::kAllGather, CommGroup::kTensor, 8, 4096)), eight / 2, 1e-10);
}

// Of two measured activations, the requested one has more weight.
TEST(OpTimes, ActivationsAreDistinguished) {
  const auto activation = [](Activation kind, std::int64_t tokens) {
    return OpDesc{.kind = OpKind::kActivationForward, .activation = kind, .dims = {tokens, 1024}};
  };
  std::vector<OpTime> measured;
  for (const std::int64_t tokens : {64, 256}) {
    measured.push_back({activation(Activation::kRelu, tokens), 1e-7 * static_cast<double>(tokens)});
    measured.push_back({activation(Activation::kGelu, tokens), 4e-7 * static_cast<double>(tokens)});
  }
  const OpTimes times(measured);
  EXPECT_GT(times.Seconds(activation(Activation::kGelu, 128)),
            1.3 * times.Seconds(activation(Activation::kRelu, 128)));
}

TEST(OpTimes, GroupWithOneSizeUsesTheShapeOfOthers) {
  std::vector<OpTime> measured;
  for (std::int64_t n : {16, 1024, 65536}) {
    measured.push_back(
        {Comm(OpKind::kAllReduceSum, CommGroup::kTensor, 2, n), 1e-5 + 4e-9 * static_cast<double>(n)});
  }
  measured.push_back({Comm(OpKind::kAllReduceSum, CommGroup::kWorld, 4, 4), 3e-5});
  const OpTimes times(measured);
  const double large = times.Seconds(Comm(OpKind::kAllReduceSum, CommGroup::kWorld, 4, 1 << 20));
  EXPECT_GT(large, 3e-3);  // not the latency of sixteen bytes
  EXPECT_LT(large, 3e-2);  // not sixteen bytes' time per byte
}

}  // namespace
}  // namespace autocfg
