#include "trainer/layout/element_copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/cpu/cpu_device.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

class RepeatFromDoubles : public ::testing::Test {
 protected:
  template <typename T>
  std::vector<T> Repeated(const std::vector<double>& values, DType type, std::int64_t elements) {
    std::vector<T> result(static_cast<std::size_t>(elements) + 1, T{});
    autocfg::trainer::RepeatFromDoubles(
        values, {.data = result.data(), .dtype = type, .rank = 1, .shape = {elements}}, *device_, *stream_);
    EXPECT_EQ(result.back(), T{}) << "memory after the tensor";
    result.pop_back();
    return result;
  }

  const std::unique_ptr<Device> device_ = CreateCpuDevice();
  const std::unique_ptr<Stream> stream_ = device_->CreateStream();
};

TEST_F(RepeatFromDoubles, StaysWithinTheTensor) {
  EXPECT_EQ(Repeated<double>({1, 2, 3}, DType::kF64, 7), (std::vector<double>{1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(Repeated<float>({1, 2, 3}, DType::kF32, 2), (std::vector<float>{1, 2}));
  const std::vector<Bf16Bits> bf16 = Repeated<Bf16Bits>({0.1, -3}, DType::kBF16, 3);
  EXPECT_EQ(bf16[0], ToBf16(0.1f));
  EXPECT_EQ(bf16[1], ToBf16(-3.f));
  EXPECT_EQ(bf16[2], bf16[0]);
}

TEST_F(RepeatFromDoubles, RepetitionsAreContiguous) {
  const std::int64_t elements = (std::int64_t{70} << 20) / 4 + 5;  // two dozen copies
  const std::vector<float> result = Repeated<float>({0, 1, 2, 3, 4, 5, 6}, DType::kF32, elements);
  for (std::size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], static_cast<float>(i % 7)) << i;
}

// Counts the bytes copied from host memory, which for a GPU pass through PCIe.
class HostCopies final : public Device {
 public:
  std::string Name() const override { return cpu_->Name(); }
  bool ComputesOnHost() const override { return false; }
  bool ComputesIn(DType type) const override { return cpu_->ComputesIn(type); }
  void* Allocate(std::int64_t bytes) override { return cpu_->Allocate(bytes); }
  void Free(void* data, std::int64_t bytes) noexcept override { cpu_->Free(data, bytes); }
  std::unique_ptr<Stream> CreateStream() override { return cpu_->CreateStream(); }
  void CopyFromHost(void* to, const void* from, std::int64_t copied, Stream& stream) override {
    bytes += copied;
    cpu_->CopyFromHost(to, from, copied, stream);
  }
  void CopyToHost(void*, const void*, std::int64_t, Stream&) override { ADD_FAILURE() << "to the host"; }
  void CopyWithin(void* to, const void* from, std::int64_t copied, Stream& stream) override {
    cpu_->CopyWithin(to, from, copied, stream);
  }
  std::int64_t OverheadBytes(std::int64_t) const override { return 0; }

  std::int64_t bytes = 0;

 private:
  const std::unique_ptr<Device> cpu_ = CreateCpuDevice();
};

TEST_F(RepeatFromDoubles, CopiesFromTheHostOnce) {
  HostCopies device;
  std::vector<float> result(1'000'003);
  autocfg::trainer::RepeatFromDoubles(
      std::vector<double>{1, 2, 3},
      {.data = result.data(), .dtype = DType::kF32, .rank = 1, .shape = {1'000'003}}, device, *stream_);
  EXPECT_EQ(device.bytes, 12);
  EXPECT_EQ(result.back(), 1);
}

TEST_F(RepeatFromDoubles, AcceptsEmptyTensors) { EXPECT_TRUE(Repeated<float>({1}, DType::kF32, 0).empty()); }

TEST_F(RepeatFromDoubles, RejectsUnsupportedTypes) {
  EXPECT_THROW(Repeated<std::int32_t>({1}, DType::kI32, 4), NotSupported);
}

}  // namespace
}  // namespace autocfg::trainer
