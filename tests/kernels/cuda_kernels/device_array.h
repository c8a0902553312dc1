// An array in device memory that tests write and read as doubles, for tests of the GPU's kernels. They run on
// the emulator (cuda_emulated_test), there every launch in two orders of blocks and threads, and on a GPU
// (gpu_test). One thread.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/conformance/ops/ops_fixture.h"
#if !defined(AUTOCFG_CUDA_EMULATED)
#include "tests/gpu/gpu_under_test.h"
#endif

namespace autocfg::cuda {

inline float Widen(float x) { return x; }
inline double Widen(double x) { return x; }
inline float Widen(__nv_bfloat16 x) { return __bfloat162float(x); }
inline std::uint64_t Widen(std::uint64_t x) { return x; }

template <typename T>
T Narrow(double x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

// Returns the values rounded to T.
template <typename T>
Values RoundedTo(Values values) {
  for (double& v : values) v = static_cast<double>(Widen(Narrow<T>(v)));
  return values;
}

// Copies from device memory; waits for the kernels before.
template <typename T>
std::vector<T> FromDevice(const T* data, std::int64_t n) {
  std::vector<T> host(static_cast<std::size_t>(n));
  EXPECT_EQ(cudaMemcpy(host.data(), data, host.size() * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
  return host;
}

template <typename T>
class DeviceArray {
 public:
  // Starts with all bits set, which is NaN, `offset` elements after an address where packs can begin.
  explicit DeviceArray(std::int64_t n, std::int64_t offset = 0) : n_(n) {
    const std::size_t bytes = static_cast<std::size_t>(n + offset) * sizeof(T);
    EXPECT_EQ(cudaMalloc(&memory_, bytes), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory_, 0xff, bytes), cudaSuccess);
    data_ = memory_ + offset;
  }
  explicit DeviceArray(const std::vector<T>& values,
                       std::int64_t offset = 0) requires(!std::is_same_v<T, double>)
      : DeviceArray(static_cast<std::int64_t>(values.size()), offset) {
    Set(values);
  }
  explicit DeviceArray(const Values& values, std::int64_t offset = 0)
      : DeviceArray(static_cast<std::int64_t>(values.size()), offset) {
    std::vector<T> narrow;
    for (const double v : values) narrow.push_back(Narrow<T>(v));
    Set(narrow);
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(memory_), cudaSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  Values Get() const {
    Values values;
    for (const T v : FromDevice(data_, n_)) values.push_back(static_cast<double>(Widen(v)));
    return values;
  }

 private:
  void Set(const std::vector<T>& values) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }

  std::int64_t n_;
  T* memory_ = nullptr;
  T* data_ = nullptr;
};

// Compares results of type T. Allows the rounding to T, relative to the element, plus `tolerance` for summing
// in float.
template <typename T>
void ExpectRounded(const Values& got, const Values& want, double tolerance, const std::string& what) {
  const double unit = sizeof(T) == 2 ? 0x1p-8 : 0;
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 1;
  for (double w : want) scale = std::max(scale, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = tolerance * scale + unit * std::abs(want[i]);
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= allowed)
        << what << '[' << i << "] is " << got[i] << ", want " << want[i] << " within " << allowed;
  }
}

// The base of kernel tests. Runs every launch of the emulator in two orders of blocks and threads, which must
// give equal bits. Without a GPU, a test on a GPU is skipped, which `./dev gpu` counts as a failure.
class KernelTest : public testing::Test {
 protected:
#if defined(AUTOCFG_CUDA_EMULATED)
  void SetUp() override { cuda_emulator::SetOrder(cuda_emulator::OrderOfTests()); }
  void TearDown() override { cuda_emulator::SetOrder(cuda_emulator::Order::kForward); }
  // From now on, the emulator draws the order of threads from the seed.
  static void Shuffle(std::uint64_t seed) { cuda_emulator::SetOrder(cuda_emulator::Order::kShuffled, seed); }
#else
  void SetUp() override {
    if (const std::string why = WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
  }
  static void Shuffle(std::uint64_t) {}  // a GPU's order is its own
#endif
};

}  // namespace autocfg::cuda
