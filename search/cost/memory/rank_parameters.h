// The predictor's list of the parameters of a pipeline rank. The trainer lists them for itself
// (trainer/layout/parameters.h), and tests compare the two. Pure, thread-safe. Requires a legal plan that
// CheckPredictable accepts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "search/ops/dtype.h"
#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/shapes/local_dims.h"

namespace autocfg {

// One parameter: its elements on a rank, and whether all ranks of the tensor group hold the same values.
struct RankParameter {
  std::int64_t elements = 0;
  bool replicated = false;
};

// A few parameters in order, without heap allocation.
class ParameterList {
 public:
  void Add(const RankParameter& parameter) { parameters_[count_++] = parameter; }
  const RankParameter* begin() const { return parameters_.data(); }
  const RankParameter* end() const { return parameters_.data() + count_; }
  std::size_t size() const { return count_; }

 private:
  std::array<RankParameter, 12> parameters_{};
  std::size_t count_ = 0;
};

// A rank's parameters in the order of docs/engine.md. With several ranks, the last rank's copy of a tied
// table comes first of all.
struct ParameterLists {
  ParameterList before_layers;
  ParameterList layer;  // of each layer
  ParameterList after_layers;
};
ParameterLists ParametersOf(const LocalDims& dims, const ModelSpec& model, RankPlace place);

// Return the same, list by list. Only the list of a layer is the same for all ranks.
ParameterList ParametersBeforeLayers(const LocalDims& dims, const ModelSpec& model, RankPlace place);
ParameterList LayerParameters(const LocalDims& dims, const ModelSpec& model);
ParameterList ParametersAfterLayers(const LocalDims& dims, const ModelSpec& model, RankPlace place);

// Returns the bytes of the region with one tensor of `type` for each parameter of a rank that has `layers`
// layers in total.
std::int64_t ParameterRegionBytes(const ParameterLists& parameters, std::int64_t layers, DType type);

}  // namespace autocfg
