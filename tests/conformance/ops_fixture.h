// Puts host values on a device and reads them back, whatever the device and the element type; for tests of
// Ops. One thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "kernels/ops.h"

namespace autocfg {

using Values = std::vector<double>;
using Shape = std::initializer_list<std::int64_t>;

struct OpsUnderTest {
  std::string name;
  DType type = DType::kF32;
  std::function<std::unique_ptr<Device>()> create_device;
  std::function<std::unique_ptr<Ops>()> create_ops;
  // Largest difference to a double-precision reference, relative to the largest element of the reference (and
  // to 1).
  double tolerance = 0;
};

inline void PrintTo(const OpsUnderTest& t, std::ostream* os) { *os << t.name; }

// Seeded values in [low, high) that float represents exactly, so that every element type starts from the
// same.
inline Values Random(std::int64_t n, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(static_cast<float>(low), static_cast<float>(high));
  Values values(static_cast<std::size_t>(n));
  for (double& v : values) v = static_cast<double>(value(random));
  return values;
}

class OnDevice {
 public:
  explicit OnDevice(const OpsUnderTest& t)
      : type(t.type), device(t.create_device()), stream(device->CreateStream()), ops(t.create_ops()) {}
  ~OnDevice() {
    for (const auto& [data, bytes] : allocations_) device->Free(data, bytes);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  // A tensor of NaN.
  Tensor New(Shape shape) { return New(shape, type); }
  Tensor New(Shape shape, DType dtype) {
    Tensor t;
    t.dtype = dtype;
    for (std::int64_t dim : shape) t.shape[static_cast<std::size_t>(t.rank++)] = dim;
    t.data = device->Allocate(t.Bytes());
    allocations_.emplace_back(t.data, t.Bytes());
    if (dtype != DType::kI32) Set(t, Values(static_cast<std::size_t>(t.Elements()), std::nan("")));
    return t;
  }
  Tensor Put(Shape shape, const Values& values) { return Put(shape, values, type); }
  Tensor Put(Shape shape, const Values& values, DType dtype) {
    const Tensor t = New(shape, dtype);
    Set(t, values);
    return t;
  }
  Tensor PutTokens(const std::vector<std::int32_t>& tokens) {
    const Tensor t = New({static_cast<std::int64_t>(tokens.size())}, DType::kI32);
    device->CopyFromHost(t.data, tokens.data(), t.Bytes(), *stream);
    return t;
  }

  void Set(const Tensor& t, const Values& values) {
    ASSERT_EQ(t.Elements(), static_cast<std::int64_t>(values.size()));
    if (t.dtype == DType::kF64) {
      device->CopyFromHost(t.data, values.data(), t.Bytes(), *stream);
    } else if (t.dtype == DType::kF32) {
      const std::vector<float> narrow(values.begin(), values.end());
      device->CopyFromHost(t.data, narrow.data(), t.Bytes(), *stream);
    }
  }
  Values Get(const Tensor& t) {
    Values values(static_cast<std::size_t>(t.Elements()));
    if (t.dtype == DType::kF64) {
      device->CopyToHost(values.data(), t.data, t.Bytes(), *stream);
      stream->Synchronize();
    } else {
      std::vector<float> narrow(values.size());
      device->CopyToHost(narrow.data(), t.data, t.Bytes(), *stream);
      stream->Synchronize();
      std::copy(narrow.begin(), narrow.end(), values.begin());
    }
    return values;
  }

  const DType type;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Ops> ops;

 private:
  std::vector<std::pair<void*, std::int64_t>> allocations_;
};

// Every element within `tolerance` times the largest magnitude of `want` (at least 1).
inline void ExpectNear(const Values& got, const Values& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 1;
  for (double w : want) scale = std::max(scale, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= tolerance * scale)
        << what << '[' << i << "] is " << got[i] << ", want " << want[i] << " within " << tolerance * scale;
  }
}

}  // namespace autocfg
