#include "kernels/cuda/cudnn/cudnn_attention_graph.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "kernels/cuda/cudnn/cudnn_api.h"
#include "kernels/cuda/cudnn/cudnn_attention_pattern.h"

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

bool CudnnClearsQuerySums(std::size_t version) { return version >= 90600; }

// Faults that NVIDIA's cudnn-frontend works around (github.com/NVIDIA/cudnn-frontend):
// - It uses no bf16 attention of 9.10.0 and 9.10.1, because of faults that it does not name, and recommends
//   9.10.2 (include/cudnn_frontend/node/sdpa_support_surface.h).
// - Release notes of 1.16.0: without a padding mask, and if the number of keys is not a multiple of 128, the
//   backward of versions up to 9.15.0 may access memory out of bounds; 9.15.1 fixes it. The fault was seen
//   when CUDA graphs were replayed, but the frontend always masks such shapes
//   (.../node/scaled_dot_product_flash_attention.h).
// A fault that the engine's own test found on an H100 (cuDNN 9.19.0): the backward computes wrong gradients
// of what lies beyond 2^31 elements, while the forward is right. No version is known to mend it.
std::string CudnnAttentionFault(std::size_t version, const AttentionShape& shape) {
  constexpr std::size_t kUnusableFrom = 91000, kUsableAgain = 91002, kTailsMended = 91501;
  constexpr std::int64_t kTileKeys = 128, kMostElements = std::numeric_limits<std::int32_t>::max();
  if (version >= kUnusableFrom && version < kUsableAgain)
    return fmt::format("cuDNN {} has known faults in attention; 9.10.2 fixes them",
                       CudnnVersionText(version));
  if (version < kTailsMended && shape.seq_len % kTileKeys != 0) {
    return fmt::format(
        "the backward of cuDNN {} may access memory out of bounds if the sequence, {}, is not a multiple of "
        "{}; 9.15.1 fixes that",
        CudnnVersionText(version), shape.seq_len, kTileKeys);
  }
  // The largest tensors: qkv, or the sums of the gradient of q.
  const std::int64_t elements = shape.batch * shape.seq_len * shape.RowWidth();
  if (elements > kMostElements) {
    return fmt::format("the backward of cuDNN {} is wrong beyond 2^31 elements; q, k and v have {}",
                       CudnnVersionText(version), elements);
  }
  return "";
}

}  // namespace autocfg::cuda
