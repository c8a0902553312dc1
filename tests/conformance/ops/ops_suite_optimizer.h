// OpsSuite: the optimizer's step and the norm of the gradients that it clips.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"

namespace autocfg {

TEST_P(OpsSuite, SumOfSquaresAddsInDoublePrecision) {
  const Values x = Random(20011, 1), y = Random(21, 2), z = Random(4096, 3);
  double want = 5;
  for (const Values* values : {&x, &y, &z}) {
    for (double v : *values) want += v * v;
  }
  const Tensor result = dev_.Put({1}, {5}, DType::kF64);
  ops_.SumOfSquares(
      std::array{dev_.PutGradient({20011}, x), dev_.PutGradient({3, 7}, y), dev_.PutGradient({64, 64}, z)},
      result, stream_);
  EXPECT_NEAR(dev_.Get(result)[0], want, 1e-12 * want);
  ops_.SumOfSquares({}, result, stream_);
  EXPECT_NEAR(dev_.Get(result)[0], want, 1e-12 * want) << "nothing was added";
}

TEST_P(OpsSuite, AdamWWithoutEpsKeepsParametersWithoutGradient) {
  const Tensor param = dev_.Put({2}, {3, 3}), m = dev_.PutWide({2}, {0, 0}), v = dev_.PutWide({2}, {0, 0});
  const Tensor master = IsNarrow(dev_.type) ? dev_.PutWide({2}, {3, 3}) : Tensor{};
  UpdateParams h;
  h.lr = 0.5;
  h.eps = 0;
  h.bias_correction1 = 1 - h.beta1;
  h.bias_correction2 = 1 - h.beta2;
  ops_.AdamW(std::array{UpdatedTensor{param, dev_.PutGradient({2}, {0, 2}), master, m, v}}, h, stream_);
  Near(param, {3, 2.5}, "param");  // the first step moves by lr against the gradient's sign
}

// Updates tensors of several sizes, some with weight decay, in one op, with states of every type that the
// device keeps. Each step starts from what the device has.
class UpdateSteps {
 public:
  // `master`: none if parameters have no copy.
  struct Types {
    DType moments;
    std::optional<DType> master;
  };
  static std::vector<Types> All(const OnDevice& dev) {
    const DType wide = dev.wide_type;
    std::vector<Types> all = {{wide, std::nullopt}};
    if (wide == DType::kF32) all.push_back({DType::kBF16, std::nullopt});
    if (!IsNarrow(dev.type)) return all;
    for (const DType moments : {wide, dev.type}) {
      for (const DType master : {wide, dev.type}) all.push_back({moments, master});
    }
    return all;
  }

  struct Parameter {
    Values p, m, v;
    UpdatedTensor tensors;
  };

  UpdateSteps(OnDevice& dev, const Types& types, bool has_m, bool has_v) : dev_(dev) {
    for (const std::int64_t n : {1003, 1, 64, 5000}) {
      Parameter one{
          autocfg::Random(n, static_cast<unsigned>(n)), reference::Zeros(n), reference::Zeros(n), {}};
      one.tensors = {.param = dev.Put({n}, one.p), .grad = {}};
      if (types.master) one.tensors.master = dev.Put({n}, one.p, *types.master);
      if (has_m) one.tensors.m = dev.Put({n}, one.m, types.moments);
      if (has_v) one.tensors.v = dev.Put({n}, one.v, types.moments);
      one.tensors.weight_decay = n % 2 == 0 ? 0.0 : 0.1;
      parameters.push_back(std::move(one));
    }
  }

  // Reads what the device has, and gives each parameter a gradient. Returns the tensors of the update.
  std::vector<UpdatedTensor> Prepare(int step) {
    std::vector<UpdatedTensor> list;
    grads.clear();
    for (Parameter& one : parameters) {
      const auto n = static_cast<std::int64_t>(one.p.size());
      one.p = dev_.Get(one.tensors.master.IsPresent() ? one.tensors.master : one.tensors.param);
      if (one.tensors.m.IsPresent()) one.m = dev_.Get(one.tensors.m);
      if (one.tensors.v.IsPresent()) one.v = dev_.Get(one.tensors.v);
      Values grad = autocfg::Random(n, static_cast<unsigned>(10 * n + step));
      grad[0] = 0;  // a parameter without gradient, such as padding, only decays
      one.tensors.grad = dev_.PutGradient({n}, grad);
      grads.push_back(dev_.Get(one.tensors.grad));
      list.push_back(one.tensors);
    }
    return list;
  }

  std::vector<Parameter> parameters;
  std::vector<Values> grads;

 private:
  OnDevice& dev_;
};

// Norms above, at and below the clip norm. Without clipping, the norm has no effect.
struct Clipping {
  double clip_norm, norm, scale;
};
inline constexpr Clipping kClippings[] = {{0, 8, 1},   {1, 2, 1 / (2 + 1e-6)},     {1, 1, 1 / (1 + 1e-6)},
                                          {1, 0.5, 1}, {3, 1e4, 3 / (1e4 + 1e-6)}, {1, 0, 1}};

TEST_P(OpsSuite, AdamWOverSeveralSteps) {
  for (const UpdateSteps::Types& types : UpdateSteps::All(dev_)) {
    UpdateSteps steps(dev_, types, /*has_m=*/true, /*has_v=*/true);
    int step = 0;
    for (const auto& [clip_norm, norm, scale] : kClippings) {
      ++step;
      UpdateParams h;
      h.lr = 0.01;
      h.bias_correction1 = 1 - std::pow(h.beta1, step);
      h.bias_correction2 = 1 - std::pow(h.beta2, step);
      h.clip_norm = clip_norm;
      if (clip_norm != 0) h.squared_norm = dev_.Put({1}, {norm * norm}, DType::kF64);
      ops_.AdamW(steps.Prepare(step), h, stream_);
      for (std::size_t i = 0; i < steps.parameters.size(); ++i) {
        auto& [p, m, v, t] = steps.parameters[i];
        reference::AdamW(p, steps.grads[i], m, v, t.weight_decay, scale, h);
        Near(t.param, p, "param");
        if (t.master.IsPresent()) Near(t.master, p, "master");
        Near(t.m, m, "m");
        Near(t.v, v, "v");
      }
    }
  }
}

TEST_P(OpsSuite, SgdOverSeveralSteps) {
  for (const double momentum : {0.0, 0.9}) {
    for (const UpdateSteps::Types& types : UpdateSteps::All(dev_)) {
      UpdateSteps steps(dev_, types, /*has_m=*/momentum > 0, /*has_v=*/false);
      int step = 0;
      for (const auto& [clip_norm, norm, scale] : kClippings) {
        ++step;
        UpdateParams h;
        h.lr = 0.01;
        h.momentum = momentum;
        h.clip_norm = clip_norm;
        if (clip_norm != 0) h.squared_norm = dev_.Put({1}, {norm * norm}, DType::kF64);
        ops_.Sgd(steps.Prepare(step), h, stream_);
        for (std::size_t i = 0; i < steps.parameters.size(); ++i) {
          auto& [p, m, v, t] = steps.parameters[i];
          reference::Sgd(p, steps.grads[i], m, t.weight_decay, scale, h);
          Near(t.param, p, "param");
          if (t.master.IsPresent()) Near(t.master, p, "master");
          if (t.m.IsPresent()) Near(t.m, m, "m");
        }
      }
    }
  }
}

}  // namespace autocfg
