// The embedding, which the first stage has before its layers: its ops, and its bytes. Learned positions
// follow it in the forward and precede it in the backward; their lists are empty in a model without.
#pragma once

#include <cstdint>
#include <vector>

#include "search/blocks/tensor_bytes.h"
#include "search/ops/op_desc.h"
#include "search/plan/run_view.h"

namespace autocfg {

std::vector<OpDesc> EmbeddingForwardOps(const RunView& run);
std::vector<OpDesc> PositionForwardOps(const RunView& run);
std::vector<OpDesc> PositionBackwardOps(const RunView& run, bool accumulate);
std::vector<OpDesc> EmbeddingBackwardOps(const RunView& run, bool accumulate);

// Returns the bytes that a slot of the first stage keeps: token ids, and what a norm of embeddings reads.
std::int64_t EmbeddingBytes(const ModelSpec& model, const TensorBytes& bytes);

}  // namespace autocfg
