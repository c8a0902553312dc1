// The ops at the shapes of real models, in bf16, against plain sums in double precision: products of hidden
// sizes 2048 to 8192, norms of 8192 columns, a vocabulary of 128,256. Operands are exact in bf16. On the
// emulator the shapes are small, so that the test itself is tested.
//
// Tolerances: half a unit of the last place of the result's type, and for sums in float 64 units of the last
// place of the sum of magnitudes, which is far above what any order of adding in float errs for these random
// signs, and below what partial sums in bf16 err.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "tests/conformance/ops/ops_reference.h"
#include "tests/kernels/cuda_kernels/device_array.h"

namespace autocfg::cuda {
namespace {

using Bf16 = __nv_bfloat16;

#if defined(AUTOCFG_CUDA_EMULATED)
struct LinearSizes {
  std::int64_t tokens = 40, in = 64, out = 96;
};
const std::vector<LinearSizes>& LinearShapes() {
  static const std::vector<LinearSizes> shapes{{}, {33, 40, 56}};
  return shapes;
}
constexpr std::int64_t kNormRows = 10, kNormWidth = 264, kTokens = 24, kVocab = 320, kHidden = 64, kFfn = 72,
                       kHeads = 5, kHeadDim = 16, kLossRows = 6;
#else
struct LinearSizes {
  std::int64_t tokens, in, out;
};
// The feed-forward blocks of Llamas of 1, 8 and 70 billion parameters.
const std::vector<LinearSizes>& LinearShapes() {
  static const std::vector<LinearSizes> shapes{{8192, 2048, 5632}, {4096, 4096, 14336}, {2048, 8192, 28672}};
  return shapes;
}
constexpr std::int64_t kNormRows = 2048, kNormWidth = 8192, kTokens = 4096, kVocab = 128256, kHidden = 2048,
                       kFfn = 14336, kHeads = 40, kHeadDim = 128, kLossRows = 512;
#endif

// Multiples of 1/64 from -1 to 1.
class Sixtyfourths {
 public:
  explicit Sixtyfourths(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  float Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::int64_t>(state_ >> 40) % 129 - 64) / 64;
  }

 private:
  std::uint64_t state_;
};

// A matrix (or vector, of one row) on the host and on the device.
template <typename T>
struct Matrix {
  Matrix(std::int64_t m, std::int64_t n, std::uint64_t seed) : Matrix(m, n, Drawn(m * n, seed)) {}
  Matrix(std::int64_t m, std::int64_t n, std::vector<T> values)
      : rows(m), columns(n), host(std::move(values)), device(host) {}

  float At(std::int64_t row, std::int64_t column) const {
    return Widen(host[static_cast<std::size_t>(row * columns + column)]);
  }
  Tensor Whole() const { return Of({rows, columns}); }
  Tensor Flat() const { return Of({columns}); }
  Tensor Of(std::initializer_list<std::int64_t> shape) const {
    return Tensor{.data = device.data(), .dtype = std::is_same_v<T, Bf16> ? DType::kBF16 : DType::kF32}
        .Reshape(shape);
  }
  // Reads the device's values back.
  void Read() { host = FromDevice(device.data(), rows * columns); }

  std::int64_t rows, columns;
  std::vector<T> host;
  DeviceArray<T> device;

 private:
  static std::vector<T> Drawn(std::int64_t n, std::uint64_t seed) {
    Sixtyfourths random(seed);
    std::vector<T> values(static_cast<std::size_t>(n));
    for (T& v : values) v = Narrow<T>(random.Next());
    return values;
  }
};

// A sum and that of its terms' magnitudes.
struct Sum {
  void Add(double term) {
    value += term;
    magnitude += std::abs(term);
  }
  double value = 0, magnitude = 0;
  double stored = 0;  // magnitude of what may be rounded to the result's type before the last term is added
};

template <typename T>
void ExpectSum(double got, const Sum& want, const char* what, std::int64_t row, std::int64_t column) {
  const double unit = sizeof(T) == 2 ? 0x1p-8 : 0x1p-24;
  const double allowed = 1.01 * unit * (std::abs(want.value) + want.stored) + 64 * 0x1p-24 * want.magnitude;
  ASSERT_LE(std::abs(got - want.value), allowed) << what << " [" << row << ", " << column << "]";
}

// Checks elements of a product: 512 rows and 512 columns of the result, or all, each somewhere.
template <typename T, typename Want>
void ExpectProduct(Matrix<T>& got, const Want& want, const char* what) {
  got.Read();
  constexpr std::int64_t kMost = 512;
  const auto check = [&](std::int64_t row, std::int64_t column) {
    ExpectSum<T>(got.At(row, column), want(row, column), what, row, column);
  };
  for (std::int64_t i = 0; i < std::min(kMost, got.rows); ++i)
    ASSERT_NO_FATAL_FAILURE(
        check(got.rows - 1 - i * std::max<std::int64_t>(got.rows / kMost, 1), i * 7919 % got.columns));
  for (std::int64_t i = 0; i < std::min(kMost, got.columns); ++i)
    ASSERT_NO_FATAL_FAILURE(
        check(i * 104729 % got.rows, got.columns - 1 - i * std::max<std::int64_t>(got.columns / kMost, 1)));
}

class ModelShapes : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
#if defined(AUTOCFG_CUDA_EMULATED)
    cuda_emulator::SetOrder(cuda_emulator::Order::kForward);  // these ops have a large workspace
#endif
    device_ = CreateCudaDevice(0);
    ops_ = CreateCudaOps();
    stream_ = device_->CreateStream();
  }
  void TearDown() override {
    ops_.reset();
    stream_.reset();
    device_.reset();
    KernelTest::TearDown();
  }
  void Finish() { stream_->Synchronize(); }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(ModelShapes, Products) {
  for (const LinearSizes& sizes : LinearShapes()) {
    const std::int64_t tokens = sizes.tokens, in = sizes.in, out = sizes.out;
    SCOPED_TRACE(std::to_string(tokens) + " x " + std::to_string(in) + " x " + std::to_string(out));
    const Matrix<Bf16> x(tokens, in, 1), w(in, out, 2), bias(1, out, 3), dy(tokens, out, 4);
    Matrix<Bf16> y(tokens, out, 5), dx(tokens, in, 6);
    Matrix<float> dw(in, out, 7), dbias(1, out, 8);
    const auto product = [&](std::int64_t row, std::int64_t column) {
      Sum sum;
      for (std::int64_t k = 0; k < in; ++k) sum.Add(double{x.At(row, k)} * w.At(k, column));
      return sum;
    };
    ops_->Matmul(x.Whole(), Transpose::kNo, w.Whole(), Transpose::kNo, y.Whole(), false, *stream_);
    Finish();
    ExpectProduct(y, product, "x w");
    ops_->MatmulBias(x.Whole(), w.Whole(), bias.Flat(), y.Whole(), *stream_);
    Finish();
    ExpectProduct(
        y,
        [&](std::int64_t row, std::int64_t column) {
          Sum sum = product(row, column);
          sum.stored = std::abs(sum.value);  // if a kernel of its own adds the bias
          sum.Add(bias.At(0, column));
          return sum;
        },
        "x w + bias");
    ops_->MatmulResidual(x.Whole(), w.Whole(), {}, dy.Whole(), y.Whole(), *stream_);
    Finish();
    ExpectProduct(
        y,
        [&](std::int64_t row, std::int64_t column) {
          Sum sum = product(row, column);
          sum.Add(dy.At(row, column));
          return sum;
        },
        "x w + residual");
    ops_->Matmul(dy.Whole(), Transpose::kNo, w.Whole(), Transpose::kYes, dx.Whole(), false, *stream_);
    Finish();
    ExpectProduct(
        dx,
        [&](std::int64_t row, std::int64_t column) {
          Sum sum;
          for (std::int64_t k = 0; k < out; ++k) sum.Add(double{dy.At(row, k)} * w.At(column, k));
          return sum;
        },
        "dy w^T");
    const auto gradient = [&](std::int64_t row, std::int64_t column) {
      Sum sum;
      for (std::int64_t k = 0; k < tokens; ++k) sum.Add(double{x.At(k, row)} * dy.At(k, column));
      return sum;
    };
    const auto column_sum = [&](std::int64_t, std::int64_t column) {
      Sum sum;
      for (std::int64_t k = 0; k < tokens; ++k) sum.Add(dy.At(k, column));
      return sum;
    };
    const auto twice = [](const auto& once) {
      return [&once](std::int64_t row, std::int64_t column) {
        const Sum sum = once(row, column);
        return Sum{2 * sum.value, 2 * sum.magnitude, 0};
      };
    };
    for (const bool accumulate : {false, true}) {
      ops_->MatmulBiasGradient(x.Whole(), dy.Whole(), dw.Whole(), dbias.Flat(), accumulate, *stream_);
      Finish();
      if (!accumulate) {
        ExpectProduct(dw, gradient, "dw");
        ExpectProduct(dbias, column_sum, "dbias");
      } else {
        ExpectProduct(dw, twice(gradient), "dw added to");
        ExpectProduct(dbias, twice(column_sum), "dbias added to");
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(ModelShapes, RmsNorm) {
  const std::int64_t rows = kNormRows, width = kNormWidth;
  const Matrix<Bf16> x(rows, width, 1), gamma(1, width, 2), dy(rows, width, 3);
  Matrix<Bf16> y(rows, width, 4), dx(rows, width, 5);
  Matrix<float> rstd(1, rows, 6), dgamma(1, width, 7);
  ops_->RmsNormForward(x.Whole(), gamma.Flat(), 1e-5, y.Whole(), rstd.Flat(), *stream_);
  ops_->RmsNormBackward(dy.Whole(), x.Whole(), gamma.Flat(), rstd.Flat(), dx.Whole(), /*add_to_dx=*/false,
                        dgamma.Flat(), /*accumulate=*/false, *stream_);
  Finish();
  y.Read();
  dx.Read();
  dgamma.Read();
  std::vector<Sum> want_dgamma(static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    Sum along;
    for (std::int64_t i = 0; i < width; ++i) squares += double{x.At(row, i)} * x.At(row, i);
    const double r = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
    for (std::int64_t i = 0; i < width; ++i)
      along.Add(double{dy.At(row, i)} * gamma.At(0, i) * x.At(row, i) * r);
    const double mean = along.value / static_cast<double>(width),
                 mean_magnitude = along.magnitude / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      const double n = x.At(row, i) * r, g = double{dy.At(row, i)} * gamma.At(0, i);
      want_dgamma[static_cast<std::size_t>(i)].Add(dy.At(row, i) * n);
      ASSERT_NO_FATAL_FAILURE(
          ExpectSum<Bf16>(y.At(row, i), {n * gamma.At(0, i), std::abs(n * gamma.At(0, i)), 0}, "y", row, i));
      // The mean is a sum over the row: its error follows the terms' magnitudes, which may cancel.
      ASSERT_NO_FATAL_FAILURE(ExpectSum<Bf16>(
          dx.At(row, i), {r * (g - n * mean), r * (std::abs(g) + std::abs(n) * mean_magnitude), 0}, "dx", row,
          i));
    }
  }
  for (std::int64_t i = 0; i < width; ++i)
    ASSERT_NO_FATAL_FAILURE(
        ExpectSum<float>(dgamma.At(0, i), want_dgamma[static_cast<std::size_t>(i)], "dgamma", 0, i));
}

TEST_F(ModelShapes, SwiGlu) {
  const Matrix<Bf16> x(kTokens, 2 * kFfn, 1), dy(kTokens, kFfn, 2);
  Matrix<Bf16> y(kTokens, kFfn, 3), dx(kTokens, 2 * kFfn, 4);
  ops_->ActivationForward(Activation::kSwiGlu, x.Whole(), {}, y.Whole(), *stream_);
  ops_->ActivationBackward(Activation::kSwiGlu, x.Whole(), dy.Whole(), dx.Whole(), *stream_);
  Finish();
  y.Read();
  dx.Read();
  for (std::int64_t row = 0; row < kTokens; ++row) {
    for (std::int64_t i = 0; i < kFfn; ++i) {
      const double gate = x.At(row, i), up = x.At(row, kFfn + i), g = dy.At(row, i);
      const double silu = gate / (1 + std::exp(-gate)), sigmoid = 1 / (1 + std::exp(-gate));
      const double slope = sigmoid * (1 + gate * (1 - sigmoid));
      const auto near = [&](double got, double want, const char* what) {
        ExpectSum<Bf16>(got, {want, std::abs(want), 0}, what, row, i);
      };
      ASSERT_NO_FATAL_FAILURE(near(y.At(row, i), silu * up, "y"));
      ASSERT_NO_FATAL_FAILURE(near(dx.At(row, i), g * up * slope, "gradient of the gate"));
      ASSERT_NO_FATAL_FAILURE(near(dx.At(row, kFfn + i), g * silu, "gradient of the up"));
    }
  }
}

TEST_F(ModelShapes, RopeRefusesMoreScalesThanItsKernelTakes) {
  const std::int64_t dims = 258;
  const Matrix<Bf16> qkv(1, dims, 1);
  const RotaryFrequencies scaled{1e4, std::vector<double>(dims / 2, 0.5)};
  EXPECT_THROW(ops_->Rope(qkv.Of({1, 1, dims}), 1, dims, dims, scaled, false, *stream_),
               std::invalid_argument);
}

// The last head is not turned.
TEST_F(ModelShapes, Rope) {
  const std::int64_t turned = kHeads - 1, width = kHeads * kHeadDim, half = kHeadDim / 2;
  Matrix<Bf16> qkv(kTokens, width, 1);
  const Matrix<Bf16> before(kTokens, width, qkv.host);
  ops_->Rope(qkv.Of({1, kTokens, width}), turned, kHeadDim, kHeadDim, {5e5}, /*inverse=*/false, *stream_);
  Finish();
  qkv.Read();
  for (std::int64_t s = 0; s < kTokens; ++s) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(s) * std::pow(5e5, -2.0 * static_cast<double>(i) / kHeadDim);
      const double cosine = std::cos(angle), sine = std::sin(angle);
      for (std::int64_t head = 0; head < kHeads; ++head) {
        const std::int64_t low = head * kHeadDim + i, high = low + half;
        const double a = before.At(s, low), b = before.At(s, high);
        const bool turns = head < turned;
        const Sum want_low{turns ? a * cosine - b * sine : a, std::abs(a) + std::abs(b), 0},
            want_high{turns ? b * cosine + a * sine : b, std::abs(a) + std::abs(b), 0};
        ASSERT_NO_FATAL_FAILURE(ExpectSum<Bf16>(qkv.At(s, low), want_low, "low", s, low));
        ASSERT_NO_FATAL_FAILURE(ExpectSum<Bf16>(qkv.At(s, high), want_high, "high", s, high));
      }
    }
  }
}

TEST_F(ModelShapes, CrossEntropy) {
  const std::int64_t rows = kLossRows, valid = kVocab - 6;
  Matrix<Bf16> logits(rows, kVocab, 1);
  const Matrix<Bf16> before(rows, kVocab, logits.host);
  std::vector<std::int32_t> targets;
  for (std::int64_t t = 0; t < rows; ++t)
    targets.push_back(static_cast<std::int32_t>((t * 48611 + valid - 1) % valid));
  const DeviceArray<std::int32_t> targets_(targets);
  const DeviceArray<double> loss(Values{0});
  const double scale = 1.0 / 64;
  ops_->CrossEntropy(logits.Whole(), {valid},
                     Tensor{.data = targets_.data(), .dtype = DType::kI32}.Reshape({rows}), scale,
                     Tensor{.data = loss.data(), .dtype = DType::kF64}.Reshape({1}), *stream_);
  Finish();
  logits.Read();
  double want_loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < valid; ++i) sum += std::exp(double{before.At(row, i)});
    const std::int64_t target = targets[static_cast<std::size_t>(row)];
    want_loss += std::log(sum) - before.At(row, target);
    for (std::int64_t i = 0; i < kVocab; ++i) {
      const double p = i < valid ? std::exp(double{before.At(row, i)}) / sum : 0;
      const double want = scale * (p - (i == target ? 1 : 0));
      ASSERT_NO_FATAL_FAILURE(
          ExpectSum<Bf16>(logits.At(row, i), {want, std::abs(want), 0}, "gradient", row, i));
    }
  }
  EXPECT_NEAR(loss.Get()[0], want_loss, 1e-5 * want_loss);
}

// Every tenth token is the same, so that one row of the table has many.
TEST_F(ModelShapes, Embedding) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t t = 0; t < kTokens; ++t)
    tokens.push_back(static_cast<std::int32_t>(t % 10 == 0 ? kVocab - 1 : t * 30011 % kVocab));
  const DeviceArray<std::int32_t> tokens_(tokens);
  const Tensor ids = Tensor{.data = tokens_.data(), .dtype = DType::kI32}.Reshape({kTokens});
  const Matrix<Bf16> table(kVocab, kHidden, 1), dout(kTokens, kHidden, 2);
  Matrix<Bf16> out(kTokens, kHidden, 3);
  Matrix<float> dtable(kVocab, kHidden, 4);
  ops_->EmbeddingForward(ids, table.Whole(), 0, out.Whole(), *stream_);
  ops_->EmbeddingBackward(ids, dout.Whole(), 0, dtable.Whole(), /*accumulate=*/false, *stream_);
  Finish();
  out.Read();
  dtable.Read();
  std::vector<double> want(static_cast<std::size_t>(kVocab * kHidden), 0.0);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const std::int64_t id = tokens[static_cast<std::size_t>(t)];
    for (std::int64_t i = 0; i < kHidden; ++i) {
      ASSERT_EQ(out.At(t, i), table.At(id, i)) << t << ", " << i;
      want[static_cast<std::size_t>(id * kHidden + i)] += dout.At(t, i);
    }
  }
  for (std::int64_t row = 0; row < kVocab; ++row) {
    for (std::int64_t i = 0; i < kHidden; ++i) {  // sums of multiples of 1/64 are exact
      ASSERT_EQ(dtable.At(row, i), want[static_cast<std::size_t>(row * kHidden + i)]) << row << ", " << i;
    }
  }
}

}  // namespace
}  // namespace autocfg::cuda
