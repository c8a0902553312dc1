// Evaluates the operations of cuDNN's attention graphs one by one in double precision and compares them with
// the reference of the conformance suite. This proves that the graphs are correct on any engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_attention_pattern.h"
#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"

namespace autocfg::cuda {
namespace {

using Place = std::array<std::int64_t, 4>;

// A graph that executes each operation when it is added.
class HostGraph {
 public:
  using Id = std::int64_t;

  // Sets the memory of tensor `id`.
  void Bind(AttentionTensor id, double* data) { memory_[static_cast<Id>(id)] = data; }

  Id Memory(Id id, cudnnDataType_t, const CudnnLayout& layout,
            cudnnBackendTensorReordering_t = CUDNN_TENSOR_REORDERING_NONE) {
    tensors_[id] = {layout, memory_.at(id)};
    return id;
  }
  Id Scalar(Id id) { return Memory(id, CUDNN_DATA_FLOAT, RowMajor({1, 1, 1, 1})); }
  Id Virtual(cudnnDataType_t, const CudnnLayout& layout) {
    std::int64_t last = 0;
    for (std::size_t i = 0; i < 4; ++i) last += (layout.sizes[i] - 1) * layout.strides[i];
    values_.emplace_back(static_cast<std::size_t>(last + 1), std::nan(""));
    tensors_[++next_] = {layout, values_.back().data()};
    return next_;
  }

  void Pointwise(cudnnPointwiseMode_t mode, Id x, std::optional<Id> b, Id y,
                 cudnnDataType_t = CUDNN_DATA_FLOAT) {
    ForEach(y, [&](const Place& i) {
      const double left = At(x, i), right = b ? At(*b, i) : 0;
      switch (mode) {
        case CUDNN_POINTWISE_MUL: At(y, i) = left * right; return;
        case CUDNN_POINTWISE_DIV: At(y, i) = left / right; return;
        case CUDNN_POINTWISE_ADD: At(y, i) = left + right; return;
        case CUDNN_POINTWISE_SUB: At(y, i) = left - right; return;
        case CUDNN_POINTWISE_EXP: At(y, i) = std::exp(left); return;
        case CUDNN_POINTWISE_LOG: At(y, i) = std::log(left); return;
        case CUDNN_POINTWISE_CMP_GE: At(y, i) = left >= right ? 1 : 0; return;
        case CUDNN_POINTWISE_IDENTITY: At(y, i) = left; return;
        default: FAIL() << "operation " << mode;
      }
    });
  }
  void Index(std::int64_t axis, Id, Id y) {
    ForEach(y, [&](const Place& i) { At(y, i) = static_cast<double>(i[static_cast<std::size_t>(axis)]); });
  }
  void Select(Id x, Id b, Id mask, Id y) {
    ForEach(y, [&](const Place& i) { At(y, i) = At(mask, i) != 0 ? At(x, i) : At(b, i); });
  }
  void Matmul(Id a, Id b, Id c) {
    const std::int64_t depth = tensors_.at(a).layout.sizes[3];
    ForEach(c, [&](const Place& i) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum += At(a, Operand(a, c, i, i[2], k)) * At(b, Operand(b, c, i, k, i[3]));
      At(c, i) = sum;
    });
  }
  void Reduce(cudnnReduceTensorOp_t op, Id x, Id y) {
    ForEach(y, [&](const Place& i) {
      At(y, i) = op == CUDNN_REDUCE_TENSOR_MAX ? -std::numeric_limits<double>::infinity() : 0;
    });
    const CudnnSizes from = tensors_.at(x).layout.sizes, to = tensors_.at(y).layout.sizes;
    ForEach(x, [&](const Place& i) {
      Place j = i;
      for (std::size_t d = 0; d < 4; ++d) j[d] = i[d] * to[d] / from[d];
      double& sum = At(y, j);
      sum = op == CUDNN_REDUCE_TENSOR_MAX ? std::max(sum, At(x, i)) : sum + At(x, i);
    });
  }
  // Swaps the last two dimensions; this pattern needs no other reshape.
  void Reshape(Id x, Id y) {
    ForEach(y, [&](Place i) {
      double& to = At(y, i);
      std::swap(i[2], i[3]);
      to = At(x, i);
    });
  }

 private:
  struct Tensor {
    CudnnLayout layout;
    double* data;
  };

  template <typename F>
  void ForEach(Id id, F f) {
    const CudnnSizes n = tensors_.at(id).layout.sizes;
    Place i{};
    for (i[0] = 0; i[0] < n[0]; ++i[0]) {
      for (i[1] = 0; i[1] < n[1]; ++i[1]) {
        for (i[2] = 0; i[2] < n[2]; ++i[2]) {
          for (i[3] = 0; i[3] < n[3]; ++i[3]) f(i);
        }
      }
    }
  }
  // Dimensions of size 1 are broadcast.
  double& At(Id id, const Place& i) {
    const Tensor& t = tensors_.at(id);
    std::int64_t at = 0;
    for (std::size_t d = 0; d < 4; ++d) at += (t.layout.sizes[d] == 1 ? 0 : i[d]) * t.layout.strides[d];
    return t.data[at];
  }
  // Returns the position in a product's operand that corresponds to position `i` of the result. The operand
  // may have fewer heads.
  Place Operand(Id operand, Id result, const Place& i, std::int64_t row, std::int64_t column) {
    const std::int64_t heads = tensors_.at(operand).layout.sizes[1],
                       all = tensors_.at(result).layout.sizes[1];
    return {i[0], i[1] * heads / all, row, column};
  }

  std::map<Id, double*> memory_;
  std::map<Id, Tensor> tensors_;
  std::vector<std::vector<double>> values_;
  Id next_ = 1000;
};

TEST(CudnnAttentionPattern, ComputesAttentionAndItsGradient) {
  for (const reference::AttentionSizes& z : std::vector<reference::AttentionSizes>{
           {2, 5, 2, 3, 2}, {1, 7, 4, 3, 2}, {2, 6, 3, 4, 1}, {1, 1, 2, 2, 1}}) {
    const AttentionShape shape{z.batch, z.seq, z.heads, z.kv_heads, z.dim};
    Values qkv = Random(z.Tokens() * z.Row(), 1, -2, 2), dout = Random(z.Tokens() * z.Width(), 2);
    const reference::Attention want = reference::CausalAttention(z, qkv, dout);
    Values out(want.out.size(), std::nan("")), lse(want.lse.size(), std::nan("")),
        dqkv(want.dqkv.size(), std::nan(""));
    Values sums(want.out.size(), 0.0);
    double scale = 1 / std::sqrt(static_cast<double>(z.dim)), lowest = std::numeric_limits<float>::lowest(),
           one = 1;
    const auto bind = [&](HostGraph& graph) {
      graph.Bind(AttentionTensor::kQuery, qkv.data());
      graph.Bind(AttentionTensor::kKey, qkv.data() + shape.FirstKey());
      graph.Bind(AttentionTensor::kValue, qkv.data() + shape.FirstValue());
      graph.Bind(AttentionTensor::kOut, out.data());
      graph.Bind(AttentionTensor::kLogSumExp, lse.data());
      graph.Bind(AttentionTensor::kScale, &scale);
      graph.Bind(AttentionTensor::kLowest, &lowest);
      graph.Bind(AttentionTensor::kOne, &one);
      graph.Bind(AttentionTensor::kOutGradient, dout.data());
      graph.Bind(AttentionTensor::kQueryGradient, dqkv.data());
      graph.Bind(AttentionTensor::kKeyGradient, dqkv.data() + shape.FirstKey());
      graph.Bind(AttentionTensor::kValueGradient, dqkv.data() + shape.FirstValue());
      graph.Bind(AttentionTensor::kQuerySums, sums.data());
    };
    HostGraph forward, backward;
    bind(forward);
    AttentionPattern(shape, forward).Forward();
    ExpectNear(out, want.out, 1e-12, "out");
    ExpectNear(lse, want.lse, 1e-12, "lse");
    bind(backward);
    AttentionPattern(shape, backward).Backward();
    ExpectNear(dqkv, want.dqkv, 1e-12, "dqkv");
  }
}

}  // namespace
}  // namespace autocfg::cuda
