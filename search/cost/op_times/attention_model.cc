#include <algorithm>
#include <cstdint>

#include "search/cost/op_times/compute_model.h"

namespace autocfg {

double FusedAttentionSeconds(const OpDesc& op, const FusedAttentionDevice& device, double overhead_s) {
  const auto head_dim = static_cast<double>(op.dims[3]);
  const double slower =
      (1 + device.head_dim_half / head_dim) / (1 + device.head_dim_half / kAttentionRateHeadDim);
  return std::max(slower * Flops(op) / device.flops_per_s, MinBytes(op) / device.bytes_per_s) + overhead_s;
}

double UnfusedAttentionSeconds(const OpDesc& op, const MatmulDevice& device, double overhead_s) {
  const std::int64_t batch = op.dims[0], seq = op.dims[1], heads = op.dims[2], head_dim = op.dims[3],
                     kv_heads = op.dims[4];
  const double element = static_cast<double>(SizeOf(op.dtype));
  const double scores = static_cast<double>(batch) * static_cast<double>(heads) * static_cast<double>(seq) *
                        static_cast<double>(seq);
  const double rows = static_cast<double>(batch) * static_cast<double>(seq) * static_cast<double>(head_dim);
  const double query = rows * static_cast<double>(heads);
  const double key_value = rows * static_cast<double>(kv_heads);
  // Products of two row tensors into the scores, and of the scores into a row tensor. The gradients have the
  // same shapes.
  const auto to_scores = [&](double row_elements) {
    return MatmulSeconds(device, {batch * heads, seq, seq, head_dim}, element * (row_elements + scores)) +
           overhead_s;
  };
  const auto from_scores = [&](double row_elements) {
    return MatmulSeconds(device, {batch * heads, seq, head_dim, seq}, element * (row_elements + scores)) +
           overhead_s;
  };
  const auto pass = [&](double bytes_per_score) {
    return scores * bytes_per_score / device.bytes_per_s + overhead_s;
  };
  const double dropout = pass(2 * element + 1);
  if (op.kind == OpKind::kUnfusedAttentionForward) {
    const double softmax = pass(2 * element);
    return to_scores(query + key_value) + softmax + dropout + from_scores(query + key_value);
  }
  const double softmax = pass(3 * element);
  // dP = dO V^T; dV = P^T dO
  const double value_side = to_scores(query + key_value) + from_scores(query + key_value);
  // dQ = dS K; dK = dS^T Q
  const double key_side = 2 * from_scores(query + key_value);
  return value_side + dropout + softmax + key_side;
}

}  // namespace autocfg
