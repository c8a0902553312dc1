// For tests of Ops on any device and element type: tensors of host values, read back and compared, and the
// fixture of OpsSuite. One thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
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
  // Largest allowed difference to a double-precision reference, relative to the largest element of the
  // reference (and to 1), before a result is rounded to a type narrower than the computing type.
  double tolerance = 0;
  std::optional<DType> gradients = {};  // of parameters; none: the wide type
};

// Types to which results are rounded after they were computed in fp32. Rounding changes a result by at most
// NarrowRounding, relative to the element; 0 for types that are computed in.
inline bool IsNarrow(DType type) { return type == DType::kBF16; }
inline double NarrowRounding(DType type) { return IsNarrow(type) ? 0x1p-8 : 0; }

// Returns the number of type `type` nearest to `value`, ties to even.
inline double RoundTo(DType type, double value) {
  if (type == DType::kF32) return static_cast<double>(static_cast<float>(value));
  if (type != DType::kBF16 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent, -125) - 8);  // value of the last of 8 bits
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::abs(rounded) < 0x1p128 ? rounded
                                     : std::copysign(std::numeric_limits<double>::infinity(), value);
}

inline void PrintTo(const OpsUnderTest& t, std::ostream* os) { *os << t.name; }

// Returns seeded values in [low, high) that float represents exactly, so that every element type starts from
// the same values.
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
      : type(t.type),
        wide_type(IsNarrow(t.type) ? DType::kF32 : t.type),
        gradient_type(t.gradients.value_or(wide_type)),
        device(t.create_device()),
        stream(device->CreateStream()),
        ops(t.create_ops()) {}
  ~OnDevice() {
    for (const auto& [data, bytes] : allocations_) device->Free(data, bytes);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  // Creates a tensor of NaN.
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
  // These create tensors of the wide type.
  Tensor NewWide(Shape shape) { return New(shape, wide_type); }
  Tensor PutWide(Shape shape, const Values& values) { return Put(shape, values, wide_type); }
  Tensor NewGradient(Shape shape) { return New(shape, gradient_type); }
  Tensor PutGradient(Shape shape, const Values& values) { return Put(shape, values, gradient_type); }
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
    } else if (t.dtype == DType::kBF16) {
      std::vector<std::uint16_t> narrow;
      for (double v : values) {
        narrow.push_back(static_cast<std::uint16_t>(
            std::bit_cast<std::uint32_t>(static_cast<float>(RoundTo(t.dtype, v))) >> 16));
      }
      device->CopyFromHost(t.data, narrow.data(), t.Bytes(), *stream);
    }
  }
  Values Get(const Tensor& t) {
    Values values(static_cast<std::size_t>(t.Elements()));
    if (t.dtype == DType::kF64) {
      device->CopyToHost(values.data(), t.data, t.Bytes(), *stream);
      stream->Synchronize();
    } else if (t.dtype == DType::kBF16) {
      std::vector<std::uint16_t> narrow(values.size());
      device->CopyToHost(narrow.data(), t.data, t.Bytes(), *stream);
      stream->Synchronize();
      std::transform(narrow.begin(), narrow.end(), values.begin(), [](std::uint16_t bits) {
        return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16));
      });
    } else {
      std::vector<float> narrow(values.size());
      device->CopyToHost(narrow.data(), t.data, t.Bytes(), *stream);
      stream->Synchronize();
      std::copy(narrow.begin(), narrow.end(), values.begin());
    }
    return values;
  }

  const DType type;
  const DType wide_type;      // type of statistics and of the optimizer's tensors
  const DType gradient_type;  // of parameters
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Ops> ops;

 private:
  std::vector<std::pair<void*, std::int64_t>> allocations_;
};

// Expects for every element a difference of at most `tolerance` times the largest magnitude of `want` (at
// least 1), plus `rounding` times its own magnitude.
inline void ExpectNear(const Values& got, const Values& want, double tolerance, const std::string& what,
                       double rounding = 0) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 1;
  for (double w : want) scale = std::max(scale, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = tolerance * scale + rounding * std::abs(want[i]);
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= allowed)
        << what << '[' << i << "] is " << got[i] << ", want " << want[i] << " within " << allowed;
  }
}

// The fixture of the tests in ops_suite.h, and the base of suites that extend them.
class OpsSuite : public testing::TestWithParam<OpsUnderTest> {
 protected:
  // `factor` is for arithmetic that rounds more than a sum does. If the element type is narrow, a result in
  // it has been rounded once more, and so have `narrow` intermediate results of about the size of the largest
  // element.
  void Near(const Tensor& got, const Values& want, const std::string& what, double factor = 1,
            double narrow = 0) {
    ExpectNear(dev_.Get(got), want, GetParam().tolerance * factor + NarrowRounding(dev_.type) * narrow, what,
               NarrowRounding(got.dtype));
  }

  // Returns the value rounded to the element type.
  double Rounded(double value) const { return RoundTo(dev_.type, value); }

  // Returns inputs that the types of elements and gradients represent exactly, so that the reference uses the
  // same values.
  Values Random(std::int64_t n, unsigned seed, double low = -1, double high = 1) const {
    Values values = autocfg::Random(n, seed, low, high);
    for (double& v : values) v = RoundTo(IsNarrow(dev_.gradient_type) ? dev_.gradient_type : dev_.type, v);
    return values;
  }

  OnDevice dev_{GetParam()};
  Ops& ops_ = *dev_.ops;
  Stream& stream_ = *dev_.stream;
};

}  // namespace autocfg
