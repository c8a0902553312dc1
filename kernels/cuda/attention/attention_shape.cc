#include "kernels/cuda/attention/attention_shape.h"

#include <fmt/format.h>

#include <stdexcept>

namespace autocfg::cuda {
namespace {

constexpr std::int64_t kMostRows = (std::int64_t{1} << 31) - 1;  // of scores; block indices must fit 31 bits

}  // namespace

void CheckAttention(const AttentionShape& shape) {
  const auto refuse = [&](const char* why) {
    throw std::invalid_argument(
        fmt::format("attention of batch {}, sequence {}, heads {}, key-value heads {}, head dimension {}: {}",
                    shape.batch, shape.seq_len, shape.heads, shape.kv_heads, shape.head_dim, why));
  };
  if (shape.batch < 1 || shape.seq_len < 1 || shape.heads < 1 || shape.kv_heads < 1 || shape.head_dim < 1)
    refuse("every size must be at least 1");
  if (shape.heads % shape.kv_heads != 0) refuse("the heads must be divisible by the key-value heads");
  if (shape.batch * shape.heads > kMostRows / shape.seq_len)
    refuse("batch x heads x sequence must be at most 2^31 - 1");
  if (shape.HasAlibi() && (shape.first_head < 0 || shape.first_head > shape.alibi_heads - shape.heads))
    refuse("the slopes of ALiBi must be of heads that the model has");
  if (shape.softcap < 0 || shape.window < 0) refuse("soft cap and window must not be negative");
  if (shape.head_dim > kMostHeadDim) refuse("the CUDA device supports head dimensions up to 256");
}

}  // namespace autocfg::cuda
