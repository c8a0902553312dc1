#include "kernels/cuda/attention/cudnn_attention_graph.h"

#include "kernels/cuda/attention/cudnn_attention_pattern.h"

namespace autocfg::cuda {
AttentionLayouts LayoutsOf(const AttentionShape& shape) {
  const std::int64_t B = shape.batch, S = shape.seq_len, N = shape.heads, G = shape.kv_heads,
                     D = shape.head_dim;
  const std::int64_t row = shape.RowWidth();
  return {.query = {{B, N, S, D}, {S * row, D, row, 1}},
          .key = {{B, G, S, D}, {S * row, D, row, 1}},
          .out = {{B, N, S, D}, {S * N * D, D, N * D, 1}},
          .scores = RowMajor({B, N, S, S}),
          .rows = RowMajor({B, N, S, 1})};
}

std::int64_t QuerySumBytes(const AttentionShape& shape) {
  constexpr std::int64_t kTileRows = 128;
  return (shape.batch * shape.heads * shape.seq_len + kTileRows) * shape.head_dim *
         static_cast<std::int64_t>(sizeof(float));
}

std::optional<CudnnPlan> FindAttentionForward(const AttentionShape& shape, const CudnnTarget& target,
                                              std::string* why) {
  CudnnGraph graph;
  AttentionPattern(shape, graph).Forward();
  return graph.FindPlan(target, why);
}

std::optional<CudnnPlan> FindAttentionBackward(const AttentionShape& shape, const CudnnTarget& target,
                                               std::string* why) {
  CudnnGraph graph;
  AttentionPattern(shape, graph).Backward();
  return graph.FindPlan(target, why);
}

}  // namespace autocfg::cuda
