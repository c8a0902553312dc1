// The operations of attention, in the order and form that cuDNN's fused engines recognize. Graph is
// CudnnGraph, or a test's substitute that evaluates the operations.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cuda/attention/attention_shape.h"
#include "kernels/cuda/cudnn/cudnn_attention_graph.h"

namespace autocfg::cuda {

template <typename Graph>
class AttentionPattern {
 public:
  AttentionPattern(const AttentionShape& shape, Graph& graph)
      : grouped_(shape.heads != shape.kv_heads), at_(LayoutsOf(shape)), graph_(graph) {
    query_ = graph_.Memory(IdOf(AttentionTensor::kQuery), kBf16, at_.query);
    key_transposed_ = graph_.Memory(IdOf(AttentionTensor::kKey), kBf16, Transposed(at_.key));
    scale_ = graph_.Scalar(IdOf(AttentionTensor::kScale));
    lowest_ = graph_.Scalar(IdOf(AttentionTensor::kLowest));
  }

  void Forward() {
    const Id value = graph_.Memory(IdOf(AttentionTensor::kValue), kBf16, at_.key);
    const Id out = graph_.Memory(IdOf(AttentionTensor::kOut), kBf16, at_.out);
    const Id lse = graph_.Memory(IdOf(AttentionTensor::kLogSumExp), kFloat, at_.rows);
    const Id scores = MaskedScores(), max = Rows(), shifted = Scores(), exponentials = Scores(), sum = Rows(),
             log = Rows();
    graph_.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, max);
    graph_.Pointwise(CUDNN_POINTWISE_SUB, scores, max, shifted);
    graph_.Pointwise(CUDNN_POINTWISE_EXP, shifted, std::nullopt, exponentials);
    graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
    graph_.Pointwise(CUDNN_POINTWISE_LOG, sum, std::nullopt, log);
    graph_.Pointwise(CUDNN_POINTWISE_ADD, max, log, lse);
    const Id probabilities = graph_.Virtual(kBf16, at_.scores);
    graph_.Pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, probabilities);
    graph_.Matmul(probabilities, value, out);
  }

  // With P the probabilities: dV = P^T dout, dS = P * (dout V^T - rowsum(dout * out)) / sqrt(D), dQ = dS K,
  // dK = dS^T Q.
  void Backward() {
    const Id value_transposed = graph_.Memory(IdOf(AttentionTensor::kValue), kBf16, Transposed(at_.key));
    const Id out = graph_.Memory(IdOf(AttentionTensor::kOut), kBf16, at_.out);
    const Id dout = graph_.Memory(IdOf(AttentionTensor::kOutGradient), kBf16, at_.out);
    const Id lse = graph_.Memory(IdOf(AttentionTensor::kLogSumExp), kFloat, at_.rows);
    const Id one = graph_.Scalar(IdOf(AttentionTensor::kOne));

    const Id product = graph_.Virtual(kFloat, at_.out), row_sums = Rows(), delta = Rows();
    graph_.Pointwise(CUDNN_POINTWISE_MUL, dout, out, product);
    graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, product, row_sums);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, row_sums, one,
                     delta);  // the engines' pattern has the dropout factor here

    const Id scores = MaskedScores(), shifted = Scores(), probabilities = Scores();
    graph_.Pointwise(CUDNN_POINTWISE_SUB, scores, lse, shifted);
    graph_.Pointwise(CUDNN_POINTWISE_EXP, shifted, std::nullopt, probabilities);
    TransposedTimes(probabilities, dout, AttentionTensor::kValueGradient);

    const Id dp = Scores(), kept = Scores(), centered = Scores(), weighted = Scores(), dscores = Scores();
    graph_.Matmul(dout, value_transposed, dp);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, dp, one, kept);  // dropout factor again
    graph_.Pointwise(CUDNN_POINTWISE_SUB, kept, delta, centered);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, centered, probabilities, weighted);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, weighted, scale_, dscores);
    TransposedTimes(dscores, query_, AttentionTensor::kKeyGradient);

    const Id key = graph_.Virtual(kBf16, at_.key);
    const Id sums = graph_.Memory(IdOf(AttentionTensor::kQuerySums), kFloat, RowMajor(at_.query.sizes),
                                  CUDNN_TENSOR_REORDERING_F16x16);
    const Id dquery = graph_.Memory(IdOf(AttentionTensor::kQueryGradient), kBf16, at_.query);
    graph_.Reshape(key_transposed_, key);
    graph_.Matmul(dscores, key, sums);
    graph_.Pointwise(CUDNN_POINTWISE_IDENTITY, sums, std::nullopt, dquery);
  }

 private:
  using Id = std::int64_t;
  static constexpr cudnnDataType_t kBf16 = CUDNN_DATA_BFLOAT16, kFloat = CUDNN_DATA_FLOAT;

  static Id IdOf(AttentionTensor tensor) { return static_cast<Id>(tensor); }
  Id Scores() { return graph_.Virtual(kFloat, at_.scores); }
  Id Rows() { return graph_.Virtual(kFloat, at_.rows); }

  // Returns q k^T * scale if the key is not after the query, else the lowest float.
  Id MaskedScores() {
    const Id products = Scores(), scaled = Scores(), masked = Scores();
    const Id row = graph_.Virtual(CUDNN_DATA_INT32, at_.scores),
             column = graph_.Virtual(CUDNN_DATA_INT32, at_.scores);
    const Id seen = graph_.Virtual(CUDNN_DATA_BOOLEAN, at_.scores);
    graph_.Matmul(query_, key_transposed_, products);
    graph_.Pointwise(CUDNN_POINTWISE_MUL, products, scale_, scaled);
    graph_.Index(2, scaled, row);
    graph_.Index(3, scaled, column);
    graph_.Pointwise(CUDNN_POINTWISE_CMP_GE, row, column, seen, CUDNN_DATA_BOOLEAN);
    graph_.Select(scaled, lowest_, seen, masked);
    return masked;
  }

  // Computes the gradient `to` of keys or values: scores^T times `right`, summed over the heads that share
  // them.
  void TransposedTimes(Id scores, Id right, AttentionTensor to) {
    const Id transposed = graph_.Virtual(kBf16, Transposed(at_.scores));
    graph_.Reshape(scores, transposed);
    const Id result = graph_.Memory(IdOf(to), kBf16, at_.key);
    if (!grouped_) return graph_.Matmul(transposed, right, result);
    const Id of_each_head = graph_.Virtual(kBf16, RowMajor(at_.query.sizes));
    graph_.Matmul(transposed, right, of_each_head);
    graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, of_each_head, result);
  }

  bool grouped_;
  AttentionLayouts at_;
  Graph& graph_;
  Id query_ = 0, key_transposed_ = 0, scale_ = 0, lowest_ = 0;
};

}  // namespace autocfg::cuda
