// The shape of each parameter and how the tensor group splits it. Predictor and trainer both take shapes from
// here. Which parameters a rank has, and in which order, each lists for itself. Pure functions, thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "search/plan/model_spec.h"
#include "search/shapes/local_dims.h"

namespace autocfg {

// The role of a parameter. docs/engine.md says which of them a model has.
enum class ParameterKind : std::uint8_t {
  kTokenEmbedding,     // wte
  kPositionEmbedding,  // wpe
  kNorm1Weight,        // first parameter of each layer
  kNorm1Bias,
  kQkvWeight,  // attn.c_attn: all q, then all k, then all v
  kQkvBias,
  kAttentionOutWeight,  // attn.c_proj
  kAttentionOutBias,
  kNorm2Weight,
  kNorm2Bias,
  kFcWeight,  // mlp.c_fc; gated: all gates, then all ups
  kFcBias,
  kProjWeight,  // mlp.c_proj
  kProjBias,    // last parameter of each layer
  kFinalNormWeight,
  kFinalNormBias,
  kOutputLayer,  // lm_head, if it is not tied to wte
};
inline constexpr int kParameterKindCount = static_cast<int>(ParameterKind::kOutputLayer) + 1;

// How a parameter is split over the tensor group.
enum class Sharding : std::uint8_t {
  kReplicated,
  kRows,     // rows of a matrix (for embedding and output layer: of the padded vocabulary)
  kColumns,  // the last dim, each of its `parts` separately
};

// At most three sizes, without heap allocation: predictions make many.
class ParameterDims {
 public:
  constexpr ParameterDims() = default;
  constexpr ParameterDims(std::initializer_list<std::int64_t> sizes) {
    for (const std::int64_t size : sizes) sizes_[count_++] = size;
  }

  constexpr const std::int64_t* begin() const { return sizes_.data(); }
  constexpr const std::int64_t* end() const { return sizes_.data() + count_; }
  constexpr std::size_t size() const { return count_; }

  bool operator==(const ParameterDims&) const = default;

 private:
  std::array<std::int64_t, 3> sizes_{};
  std::size_t count_ = 0;
};

// A vector has one dim, a matrix two: [in, out], or [vocabulary, hidden] for the embedding and output layer.
struct ParameterShape {
  ParameterDims global;  // of the whole model, without vocabulary padding
  ParameterDims local;   // of a rank
  // kColumns: the widths, in the whole model, of the blocks of the last dim. Their sum is the last of
  // `global`. c_attn: q, k and v; a gated c_fc: gates and ups; otherwise one block.
  ParameterDims parts;
  Sharding sharding = Sharding::kReplicated;

  bool operator==(const ParameterShape&) const = default;
};

// Returns the shape of a parameter of `model` on a rank with these dims, whether or not the model has it.
ParameterShape ShapeOf(ParameterKind kind, const ModelSpec& model, const LocalDims& dims);

// Returns the elements of the parameter on a rank.
constexpr std::int64_t LocalElements(const ParameterShape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape.local) elements *= size;
  return elements;
}

}  // namespace autocfg
