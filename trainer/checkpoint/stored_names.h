// Names and layout of a model's parameters in Hugging Face checkpoints. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/plan/model_spec.h"
#include "trainer/layout/parameters.h"

namespace autocfg::trainer {

// kGpt2: "transformer.h.0.attn.c_attn.weight", matrices as ours, [in, out]. kLlama:
// "model.layers.0.self_attn.q_proj.weight", matrices of linear layers [out, in]; q, k and v, and gate and up,
// are separate tensors. kOlmo2, kGemma2: the same, but for the names of norms on outputs, and on inputs
// beside them. kGemma2: norms store what is added to 1.
enum class NameStyle : std::uint8_t { kGpt2, kLlama, kOlmo2, kGemma2 };

// Returns kGpt2 if the model uses only GPT-2's parts: layernorm on inputs, a non-gated activation, learned
// positions, biases, tied embeddings, and as many key-value heads as heads. Of other models, returns kOlmo2
// with norms on outputs alone, kGemma2 with norms on both, else kLlama.
NameStyle StyleOf(const ModelSpec& model);

// A tensor of a file and its place in the parameter: columns [first, first + columns) of the parameter's last
// dim, all rows.
struct StoredPart {
  std::string name;
  std::vector<std::int64_t> shape;  // as in the file
  std::int64_t first = 0;
  std::int64_t columns = 0;
  bool transposed = false;  // the file's rows are the parameter's columns
  double offset = 0;        // what is added to the file's values
};

// Returns the tensors that store a parameter of the whole model, in the order of its columns.
std::vector<StoredPart> StoredParts(const Parameter& parameter, NameStyle style);

// Returns the prefix that names may lack: "transformer." or "model.".
std::string_view Prefix(NameStyle style);
// Returns `name` with its prefix.
std::string FullName(NameStyle style, std::string_view name);

// Returns true if a file may hold a tensor of this full name that no model reads: a buffer, or the output
// layer if it is tied.
bool IsPassedOver(const ModelSpec& model, std::string_view full_name);

}  // namespace autocfg::trainer
