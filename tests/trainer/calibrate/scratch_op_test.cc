// Tests that an op that runs repeatedly on its own results, as in timing, keeps normal numbers that take
// normal time.
#include "trainer/calibrate/scratch_op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/dry/dry_device.h"
#include "kernels/op_log.h"
#include "tests/support/every_op.h"

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
  for (const OpDesc& desc : test::EveryComputeOp(DType::kF32)) {
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
}

// The checks of an op make of the operands the descriptor that the operands were made of.
TEST(ScratchOp, IssuesTheOpThatItWasMadeFor) {
  const auto device = CreateDryDevice();
  const auto stream = device->CreateStream();
  OpLog log;
  const auto ops = CreateDryOps(log);
  for (const DType type : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (const OpDesc& desc : test::EveryComputeOp(type)) {
      log.Clear();
      ScratchOp(desc, *device, *ops, *stream).Run();
      ASSERT_EQ(log.ops().size(), 1u) << ToString(desc);
      EXPECT_EQ(ToString(log.ops()[0]), ToString(desc));
    }
  }
}

// A CPU device that says how large its cache is.
class CachedDevice final : public Device {
 public:
  explicit CachedDevice(std::int64_t cache_bytes) : cache_bytes_(cache_bytes) {}

  std::string Name() const override { return cpu_->Name(); }
  bool ComputesOnHost() const override { return true; }
  bool ComputesIn(DType type) const override { return cpu_->ComputesIn(type); }
  void* Allocate(std::int64_t bytes) override { return cpu_->Allocate(bytes); }
  void Free(void* data, std::int64_t bytes) noexcept override { cpu_->Free(data, bytes); }
  std::unique_ptr<Stream> CreateStream() override { return cpu_->CreateStream(); }
  void CopyFromHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyFromHost(to, from, bytes, stream);
  }
  void CopyToHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyToHost(to, from, bytes, stream);
  }
  std::int64_t CacheBytes() const override { return cache_bytes_; }
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    return cpu_->OverheadBytes(arena_bytes);
  }

 private:
  std::unique_ptr<Device> cpu_ = CreateCpuDevice();
  std::int64_t cache_bytes_;
};

// Runs an op until its first copy has its turn again. Returns, by tensor, how many copies were seen.
std::vector<std::size_t> CopiesSeen(ScratchOp& op) {
  std::vector<std::set<const void*>> seen(op.tensors().size());
  for (std::size_t run = 0; run < 2 * op.copies(); ++run) {
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i].insert(op.tensors()[i].data);
    op.Run();
  }
  std::vector<std::size_t> counts;
  for (const auto& tensors : seen) counts.push_back(tensors.size());
  return counts;
}

// A step finds weights, gradients and saved activations in memory, and what was just written in the cache.
TEST(ScratchOp, WhatAStepFindsInMemoryIsNotInTheCache) {
  CachedDevice device(std::int64_t{1} << 20);
  const auto stream = device.CreateStream();
  const auto ops = CreateCpuOps();
  const auto copies_of = [&](OpDesc desc, std::int64_t rows_bytes = 0) {
    ScratchOp op(desc, device, *ops, *stream);
    std::vector<std::size_t> seen = CopiesSeen(op);
    std::int64_t bytes = rows_bytes;
    for (std::size_t i = 0; i < seen.size(); ++i) bytes += seen[i] > 1 ? op.tensors()[i].Bytes() : 0;
    const auto others = static_cast<std::int64_t>(op.copies()) - 1;
    EXPECT_GE(others * bytes, device.CacheBytes()) << ToString(desc);
    return seen;
  };
  const auto many = testing::Gt(1u);
  OpDesc product;
  product.dims = {32, 128, 256};
  EXPECT_THAT(copies_of(product), testing::ElementsAre(1, many, many)) << "x, W and the result";
  product.transpose_b = true;
  EXPECT_THAT(copies_of(product), testing::ElementsAre(1, many, many)) << "dy, W and dx";
  product.transpose_b = false;
  product.transpose_a = product.accumulate = true;
  EXPECT_THAT(copies_of(product), testing::ElementsAre(many, 1, many)) << "x, dy and dW";
  EXPECT_THAT(copies_of({.kind = OpKind::kRmsNormForward, .dims = {64, 256}}),
              testing::ElementsAre(1, many, many, many))
      << "x, gamma, y and rstd";
  EXPECT_THAT(copies_of({.kind = OpKind::kRmsNormBackward, .dims = {64, 256}}),
              testing::ElementsAre(1, many, many, many, many, many))
      << "dy, x, gamma, rstd, dx and dgamma";
  EXPECT_THAT(copies_of({.kind = OpKind::kEmbeddingForward, .dims = {64, 256, 500}}, 64 * 256 * 4),
              testing::ElementsAre(many, 1, many))
      << "ids, table and result: other ids find other rows";
  EXPECT_THAT(copies_of({.kind = OpKind::kSumOfSquares, .dims = {40'000}}), testing::ElementsAre(many, many));
}

TEST(ScratchOp, NoCopiesIfTheOpOrNoCacheHoldsThem) {
  const auto ops = CreateCpuOps();
  const auto copies = [&](std::int64_t cache_bytes, std::int64_t elements) {
    CachedDevice device(cache_bytes);
    const auto stream = device.CreateStream();
    return ScratchOp({.kind = OpKind::kFill, .dims = {elements}}, device, *ops, *stream).copies();
  };
  EXPECT_EQ(copies(0, 1000), 1u) << "unknown";
  EXPECT_EQ(copies(1 << 20, 1 << 19), 1u) << "larger than the cache: it flushes itself";
  EXPECT_EQ(copies(1 << 20, 1 << 18), 3u);
  EXPECT_EQ(copies(1 << 30, 1), 64u) << "as many as are worth it";
}

TEST(ScratchOp, CopiesHoldTheSameNumbersAndOtherIds) {
  CachedDevice device(1 << 16);
  const auto stream = device.CreateStream();
  const auto ops = CreateCpuOps();
  ScratchOp op({.kind = OpKind::kEmbeddingForward, .dims = {64, 64, 5000}}, device, *ops, *stream);
  ASSERT_GT(op.copies(), 2u);
  std::set<std::int32_t> ids;
  for (std::size_t run = 0; run < op.copies(); ++run) {
    const std::span<const Tensor> tensors = op.tensors();
    ids.insert(tensors[0].As<std::int32_t>(), tensors[0].As<std::int32_t>() + 64);
    op.Run();
    const float* row = tensors[1].As<float>() + std::int64_t{64} * tensors[0].As<std::int32_t>()[3];
    EXPECT_EQ(std::vector<float>(row, row + 64),
              std::vector<float>(tensors[2].As<float>() + 3 * 64, tensors[2].As<float>() + 4 * 64));
  }
  EXPECT_EQ(ids.size(), 64 * op.copies());
  EXPECT_GE(*ids.begin(), 0);
  EXPECT_LT(*ids.rbegin(), 5000);
  ScratchOp product({.dims = {8, 16, 16}}, device, *ops, *stream);
  const auto values = [](const Tensor& t) {
    return std::vector<float>(t.As<float>(), t.As<float>() + t.Elements());
  };
  const std::vector<float> first = values(product.tensors()[1]);
  product.Run();
  EXPECT_EQ(values(product.tensors()[1]), first) << "of the next copy of W";
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
