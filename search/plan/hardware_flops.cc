#include "search/plan/hardware_flops.h"

#include "search/plan/model_stages.h"

namespace autocfg {
namespace {

// Returns the layers' forward FLOPs: a third of forward plus backward, without the output layer.
double LayersForwardFlops(const ModelSpec& model, double tokens, double seq_len) {
  ModelSpec layers_only = model;
  layers_only.vocab = 0;
  return ModelFlops(layers_only, tokens, seq_len) / 3;
}

// Returns a model of the layers that the plan recomputes.
ModelSpec RecomputedPart(const ModelSpec& model, const ParallelPlan& plan) {
  ModelSpec part = model;
  part.layers = 0;
  part.layer_kinds.clear();
  std::int64_t first = 0;
  for (std::int64_t stage = 0; stage < StageCount(plan); ++stage) {
    const std::int64_t layers = StageLayerCount(model, plan, stage);
    const std::int64_t recomputed = FullyRecomputedLayers(plan, layers);
    part.layers += recomputed;
    for (std::int64_t i = 0; i < recomputed && !model.layer_kinds.empty(); ++i)
      part.layer_kinds.push_back(KindOf(model, first + i));
    first += layers;
  }
  return part;
}

// Returns the FLOPs of a product of the hidden and the feed-forward width in so many layers.
double Product(const ModelSpec& model, std::int64_t layers, double tokens) {
  return 2 * tokens * static_cast<double>(model.ffn_hidden) * static_cast<double>(model.hidden) *
         static_cast<double>(layers);
}

}  // namespace

double HardwareFlops(const ModelSpec& model, const ParallelPlan& plan, double tokens, double seq_len) {
  const double once = ModelFlops(model, tokens, seq_len);
  if (plan.recompute != Recompute::kFull) {
    const auto width = static_cast<double>(model.heads * model.head_dim);
    const double scores = RecomputesScores(plan) ? 4 * tokens * CountedKeys(model, seq_len) * width : 0;
    const double projections =
        RecomputesPart(plan, LayerPart::kMlp)
            ? (IsGated(model.activation) ? 2 : 1) * Product(model, model.layers, tokens)
            : 0;
    return once + scores + projections;
  }
  const ModelSpec recomputed = plan.recompute_layers > 0 ? RecomputedPart(model, plan) : model;
  // Which the backward of a norm on its output needs.
  const double last_products =
      NormsOutputs(model.norm_placement) ? 0 : Product(model, recomputed.layers, tokens);
  return once + LayersForwardFlops(recomputed, tokens, seq_len) - last_products;
}

double PublishedHardwareFlops(const ModelSpec& model, double tokens, double seq_len) {
  return ModelFlops(model, tokens, seq_len) + LayersForwardFlops(model, tokens, seq_len);
}

std::optional<double> PeakFlops(const DeviceSpec& device, const Precision& precision) {
  const auto peak = [&] {
    switch (precision.products) {
      case ProductFormat::kFp8:
      case ProductFormat::kFp8Block: return device.flops_per_s_fp8;
      case ProductFormat::kMxfp8: return device.flops_per_s_mxfp8;
      case ProductFormat::kNvfp4: return device.flops_per_s_nvfp4;
      case ProductFormat::kCompute: break;
    }
    switch (precision.compute) {
      case DType::kF64: return device.flops_per_s_fp64;
      case DType::kF32: return device.flops_per_s_fp32;
      case DType::kBF16: return device.flops_per_s_bf16;
      case DType::kF16: return device.flops_per_s_fp16;
      case DType::kI32:
      case DType::kI8: break;
    }
    return 0.0;
  }();
  if (!(peak > 0)) return std::nullopt;
  return peak;
}

}  // namespace autocfg
