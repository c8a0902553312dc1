// AdamW and sums of squares on the GPU over lists that take several launches, of tensors that take several
// blocks, at addresses that are not pack-aligned, and with master copies.
#include "kernels/cuda/kernels/optimizer.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/kernels/cuda_kernels/device_array.h"

namespace autocfg::cuda {
namespace {

template <typename T>
class OptimizerTest : public KernelTest {};

using Types = testing::Types<float, __nv_bfloat16>;
TYPED_TEST_SUITE(OptimizerTest, Types);

TYPED_TEST(OptimizerTest, SumsTheSquaresOfManyTensors) {
  std::vector<std::unique_ptr<DeviceArray<TypeParam>>> arrays;
  std::vector<SquaresItem<TypeParam>> items;
  double want = 3;
  for (int i = 0; i < 600; ++i) {
    const std::int64_t n = i == 0 ? 200001 : i == 257 ? 65536 : i == 300 ? 65537 : 1 + i % 50, offset = i % 3;
    const Values x = RoundedTo<TypeParam>(Random(n, static_cast<unsigned>(i)));
    for (double v : x) want += v * v;
    arrays.push_back(std::make_unique<DeviceArray<TypeParam>>(x, offset));
    items.push_back({arrays.back()->data(), n});
  }
  const DeviceArray<double> result(Values{3});
  Scratch scratch;
  SumOfSquares<TypeParam>(items, result.data(), scratch, nullptr);
  EXPECT_NEAR(result.Get()[0], want, 1e-12 * want);
  SumOfSquares<TypeParam>({}, result.data(), scratch, nullptr);
  EXPECT_NEAR(result.Get()[0], want, 1e-12 * want);
}

TYPED_TEST(OptimizerTest, AdamWOfManyTensors) {
  struct Parameter {
    Values p, grad, m, v;
    std::unique_ptr<DeviceArray<TypeParam>> param;
    std::unique_ptr<DeviceArray<float>> grad_, master, m_, v_;
    double weight_decay;
  };
  UpdateParams h;
  h.lr = 0.01;
  h.bias_correction1 = 1 - std::pow(h.beta1, 3);
  h.bias_correction2 = 1 - std::pow(h.beta2, 3);
  const DeviceArray<double> squared_norm(Values{16.0});
  h.clip_norm = 2 + 5e-7;  // half of the divisor, norm + 1e-6
  h.squared_norm = {.data = squared_norm.data(), .dtype = DType::kF64, .rank = 1, .shape = {1}};
  for (bool with_master : {false, true}) {
    std::vector<Parameter> parameters;
    std::vector<UpdateItem> items;
    for (int i = 0; i < 300; ++i) {
      const std::int64_t n = i == 1 ? 20003 : i == 256 ? 8192 : i == 299 ? 8193 : 1 + i % 40, offset = i % 2;
      const auto seed = static_cast<unsigned>(4 * i);
      Parameter one{Random(n, seed),
                    Random(n, seed + 1),
                    Random(n, seed + 2),
                    Random(n, seed + 3, 0, 1),
                    {},
                    {},
                    {},
                    {},
                    {},
                    i % 3 == 0 ? 0.1 : 0.0};
      if (!with_master) one.p = RoundedTo<TypeParam>(one.p);
      one.param = std::make_unique<DeviceArray<TypeParam>>(one.p, offset);
      one.grad_ = std::make_unique<DeviceArray<float>>(one.grad);
      if (with_master) one.master = std::make_unique<DeviceArray<float>>(one.p);
      one.m_ = std::make_unique<DeviceArray<float>>(one.m);
      one.v_ = std::make_unique<DeviceArray<float>>(one.v);
      items.push_back({one.param->data(), one.grad_->data(), with_master ? one.master->data() : nullptr,
                       one.m_->data(), one.v_->data(), n, static_cast<float>(1 - h.lr * one.weight_decay)});
      parameters.push_back(std::move(one));
    }
    const DType type = sizeof(TypeParam) == 2 ? DType::kBF16 : DType::kF32;
    AdamW(items, {type, DType::kF32, DType::kF32, DType::kF32}, h, nullptr);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Parameter& one = parameters[i];
      for (std::size_t j = 0; j < one.p.size(); ++j) {
        const double g = one.grad[j] * 0.5;
        one.m[j] = h.beta1 * one.m[j] + (1 - h.beta1) * g;
        one.v[j] = h.beta2 * one.v[j] + (1 - h.beta2) * g * g;
        const double step =
            h.lr * (one.m[j] / h.bias_correction1) / (std::sqrt(one.v[j] / h.bias_correction2) + h.eps);
        one.p[j] = one.p[j] * (1 - h.lr * one.weight_decay) - step;
      }
      const std::string at = " of tensor " + std::to_string(i);
      ExpectRounded<TypeParam>(one.param->Get(), one.p, 1e-6, "param" + at);
      ExpectRounded<float>(one.m_->Get(), one.m, 1e-6, "m" + at);
      ExpectRounded<float>(one.v_->Get(), one.v, 1e-6, "v" + at);
      if (!with_master) continue;
      ExpectRounded<float>(one.master->Get(), one.p, 1e-6, "master" + at);
      EXPECT_EQ(one.param->Get(), RoundedTo<TypeParam>(one.master->Get())) << at;
    }
  }
}

}  // namespace
}  // namespace autocfg::cuda
