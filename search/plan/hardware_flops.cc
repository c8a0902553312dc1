#include "search/plan/hardware_flops.h"

#include <algorithm>

namespace autocfg {

double HardwareFlops(const ModelSpec& model, const ParallelPlan& plan, double tokens, double seq_len) {
  const double once = ModelFlops(model, tokens, seq_len);
  if (plan.recompute != Recompute::kFull) return once;
  ModelSpec layers_only = model;
  layers_only.vocab = 0;  // no output layer
  double share = 1;
  if (plan.recompute_layers > 0) {
    const auto recomputed = static_cast<double>(plan.recompute_layers * plan.pp * plan.virtual_stages);
    share = std::min(1.0, recomputed / static_cast<double>(model.layers));
  }
  return once + share * ModelFlops(layers_only, tokens, seq_len) / 3;
}

std::optional<double> PeakFlops(const DeviceSpec& device, const Precision& precision) {
  const std::string_view name = Name(precision);
  const double peak = name == "fp64"   ? device.flops_per_s_fp64
                      : name == "fp32" ? device.flops_per_s_fp32
                      : name == "bf16" ? device.flops_per_s_bf16
                      : name == "fp16" ? device.flops_per_s_fp16
                                       : 0;
  if (!(peak > 0)) return std::nullopt;
  return peak;
}

}  // namespace autocfg
