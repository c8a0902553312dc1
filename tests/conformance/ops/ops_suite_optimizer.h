// OpsSuite: the optimizer's step and the norm of the gradients that it clips.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
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
  ops_.SumOfSquares(std::array{dev_.PutWide({20011}, x), dev_.PutWide({3, 7}, y), dev_.PutWide({64, 64}, z)},
                    result, stream_);
  EXPECT_NEAR(dev_.Get(result)[0], want, 1e-12 * want);
  ops_.SumOfSquares({}, result, stream_);
  EXPECT_NEAR(dev_.Get(result)[0], want, 1e-12 * want) << "nothing was added";
}

TEST_P(OpsSuite, AdamWWithoutEpsKeepsParametersWithoutGradient) {
  const Tensor param = dev_.Put({2}, {3, 3}), m = dev_.PutWide({2}, {0, 0}), v = dev_.PutWide({2}, {0, 0});
  const Tensor master = IsNarrow(dev_.type) ? dev_.PutWide({2}, {3, 3}) : Tensor{};
  AdamWParams h;
  h.lr = 0.5;
  h.eps = 0;
  h.bias_correction1 = 1 - h.beta1;
  h.bias_correction2 = 1 - h.beta2;
  ops_.AdamW(std::array{AdamWTensor{param, dev_.PutWide({2}, {0, 2}), master, m, v}}, h, stream_);
  Near(param, {3, 2.5}, "param");  // the first step moves by lr against the gradient's sign
}

// Updates tensors of several sizes, some with weight decay, in one op; with master copies if parameters are
// narrow.
TEST_P(OpsSuite, AdamWOverSeveralSteps) {
  struct Parameter {
    Values p, m, v;
    AdamWTensor tensors;
  };
  std::vector<Parameter> parameters;
  for (const std::int64_t n : {1003, 1, 64, 5000}) {
    Parameter one{Random(n, static_cast<unsigned>(n)), reference::Zeros(n), reference::Zeros(n), {}};
    const double weight_decay = n % 2 == 0 ? 0.0 : 0.1;
    const Tensor master = IsNarrow(dev_.type) ? dev_.PutWide({n}, one.p) : Tensor{};
    one.tensors = {dev_.Put({n}, one.p),     {},          master, dev_.PutWide({n}, one.m),
                   dev_.PutWide({n}, one.v), weight_decay};
    parameters.push_back(std::move(one));
  }
  // Norms above, at and below the clip norm. Without clipping, the norm has no effect.
  struct Clipping {
    double clip_norm, norm, scale;
  };
  const Clipping clippings[] = {{0, 8, 1},   {1, 2, 1 / (2 + 1e-6)},     {1, 1, 1 / (1 + 1e-6)},
                                {1, 0.5, 1}, {3, 1e4, 3 / (1e4 + 1e-6)}, {1, 0, 1}};
  int step = 0;
  for (const auto& [clip_norm, norm, scale] : clippings) {
    ++step;
    AdamWParams h;
    h.lr = 0.01;
    h.bias_correction1 = 1 - std::pow(h.beta1, step);
    h.bias_correction2 = 1 - std::pow(h.beta2, step);
    h.clip_norm = clip_norm;
    if (clip_norm != 0) h.squared_norm = dev_.Put({1}, {norm * norm}, DType::kF64);
    std::vector<AdamWTensor> list;
    for (Parameter& one : parameters) {
      const auto n = static_cast<std::int64_t>(one.p.size());
      Values grad = Random(n, static_cast<unsigned>(10 * n + step));
      grad[0] = 0;  // a parameter without gradient, such as padding, only decays
      one.tensors.grad = dev_.PutWide({n}, grad);
      reference::AdamW(one.p, grad, one.m, one.v, one.tensors.weight_decay, scale, h);
      list.push_back(one.tensors);
    }
    ops_.AdamW(list, h, stream_);
    for (const Parameter& one : parameters) {
      Near(one.tensors.param, one.p, "param");
      if (one.tensors.master.IsPresent()) Near(one.tensors.master, one.p, "master");
      Near(one.tensors.m, one.m, "m");
      Near(one.tensors.v, one.v, "v");
    }
  }
}

}  // namespace autocfg
