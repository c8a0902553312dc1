#include "kernels/cuda/attention/cudnn_faults.h"

#include <fmt/format.h>

namespace autocfg::cuda {

// Faults that NVIDIA's cudnn-frontend works around (github.com/NVIDIA/cudnn-frontend):
// - It uses no bf16 attention of 9.10.0 and 9.10.1, because of faults that it does not name, and recommends
//   9.10.2 (include/cudnn_frontend/node/sdpa_support_surface.h).
// - Release notes of 1.16.0: without a padding mask, and if the number of keys is not a multiple of 128, the
//   backward of versions up to 9.15.0 may access memory out of bounds; 9.15.1 fixes it. The fault was seen
//   when CUDA graphs were replayed, but the frontend always masks such shapes
//   (.../node/scaled_dot_product_flash_attention.h).
std::string CudnnAttentionFault(std::size_t version, const AttentionShape& shape) {
  constexpr std::size_t kUnusableFrom = 91000, kUsableAgain = 91002, kTailsMended = 91501;
  constexpr std::int64_t kTileKeys = 128;
  if (version >= kUnusableFrom && version < kUsableAgain)
    return fmt::format("cuDNN {} has known faults in attention; 9.10.2 fixes them",
                       CudnnVersionText(version));
  if (version < kTailsMended && shape.seq_len % kTileKeys != 0) {
    return fmt::format(
        "the backward of cuDNN {} may access memory out of bounds if the sequence, {}, is not a multiple of "
        "{}; 9.15.1 fixes that",
        CudnnVersionText(version), shape.seq_len, kTileKeys);
  }
  return "";
}

std::string CudnnVersionText(std::size_t version) {
  const std::size_t major = version < 90000 ? 1000 : 10000;  // cuDNN 9 changed the version numbering
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

}  // namespace autocfg::cuda
