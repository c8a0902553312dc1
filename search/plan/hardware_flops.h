// Floating-point work of a step as the hardware sees it, and the hardware's peak. Pure, thread-safe.
#pragma once

#include <optional>

#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/precision.h"

namespace autocfg {

// ModelFlops plus what the plan computes a second time, as docs/engine.md has it: under recompute=full the
// forward of every layer that recomputes but for its last matrix product (mlp.c_proj, whose result the
// backward does not need), the output layer never. Under selective the forward of attention's two products
// over the scores, 4 B s^2 h l, where attention is unfused; nothing where it is fused, which leaves it
// nothing to act on. Requires a legal plan whose split is resolved.
double HardwareFlops(const ModelSpec& model, const ParallelPlan& plan, double tokens, double seq_len);

// What published rates of runs that recompute every layer count, its whole forward: 96 B s l h^2 (1 + s/6h +
// V/16lh) of Narayanan et al. 2021 (eq. 3), generalised as ModelFlops is. For converting such rates into step
// times.
double PublishedHardwareFlops(const ModelSpec& model, double tokens, double seq_len);

// The device's peak rate for matrix products in this precision, FLOP/s; empty where it is not known.
std::optional<double> PeakFlops(const DeviceSpec& device, const Precision& precision);

}  // namespace autocfg
