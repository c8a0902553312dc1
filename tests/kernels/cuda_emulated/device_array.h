// An array in the emulated device's memory that tests write and read as doubles. One thread.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "tests/conformance/ops_fixture.h"

namespace autocfg::cuda {

// Returns the values rounded to T.
template <typename T>
Values RoundedTo(Values values) {
  for (double& v : values) v = static_cast<double>(static_cast<float>(static_cast<T>(static_cast<float>(v))));
  return values;
}

template <typename T>
class DeviceArray {
 public:
  // Starts as NaN, `offset` elements after an address where packs can begin.
  explicit DeviceArray(std::int64_t n, std::int64_t offset = 0) : n_(n) {
    EXPECT_EQ(cudaMalloc(&memory_, static_cast<std::size_t>(n + offset) * sizeof(T)), cudaSuccess);
    data_ = memory_ + offset;
  }
  explicit DeviceArray(const Values& values, std::int64_t offset = 0)
      : DeviceArray(static_cast<std::int64_t>(values.size()), offset) {
    for (std::int64_t i = 0; i < n_; ++i) data_[i] = static_cast<T>(values[static_cast<std::size_t>(i)]);
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(memory_), cudaSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  Values Get() const {
    Values values;
    for (std::int64_t i = 0; i < n_; ++i) values.push_back(static_cast<double>(data_[i]));
    return values;
  }

 private:
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

// Runs every launch in two orders of blocks and threads for the lifetime of the object.
struct InBothOrders {
  InBothOrders() { cuda_emulator::SetOrder(cuda_emulator::Order::kCompared); }
  ~InBothOrders() { cuda_emulator::SetOrder(cuda_emulator::Order::kForward); }
};

}  // namespace autocfg::cuda
