// How Hugging Face's checkpoints name and lay out the parameters of a model. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/plan/model_spec.h"
#include "trainer/model/parameters.h"

namespace autocfg {

// kGpt2: "transformer.h.0.attn.c_attn.weight", matrices as ours, [in, out]. kLlama:
// "model.layers.0.self_attn.q_proj.weight", matrices of linear layers [out, in]; q, k and v, and gate and up,
// are tensors of their own.
enum class NameStyle : std::uint8_t { kGpt2, kLlama };

// kGpt2 where the model is of GPT-2's parts alone: layernorm, an activation that is not gated, learned
// positions, biases, tied embeddings, as many key-value heads as heads. kLlama for every other model.
NameStyle StyleOf(const ModelSpec& model);

// A tensor of a file, and where it lies in the parameter: columns [first, first + columns) of the parameter's
// last dim, all rows.
struct StoredPart {
  std::string name;
  std::vector<std::int64_t> shape;  // as the file has it
  std::int64_t first = 0;
  std::int64_t columns = 0;
  bool transposed = false;  // the file's rows are the parameter's columns
};

// The tensors that a parameter of the whole model is stored in, in the order of its columns.
std::vector<StoredPart> StoredParts(const Parameter& parameter, NameStyle style);

// The leading word that names may lack: "transformer." or "model.".
std::string_view Prefix(NameStyle style);
// `name` with its leading word.
std::string FullName(NameStyle style, std::string_view name);

// Whether a file may hold a tensor of this full name that no model reads: buffers, and the output layer where
// it is tied.
bool IsPassedOver(const ModelSpec& model, std::string_view full_name);

}  // namespace autocfg
