// Computes the floating-point work of a step as the hardware executes it, and the hardware's peak. Pure,
// thread-safe.
#pragma once

#include <optional>

#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/states/precision.h"

namespace autocfg {

// Returns ModelFlops plus what the plan recomputes, as specified in docs/engine.md:
//
// - recompute=full: the forward of every recomputed layer except its last matrix product (mlp.c_proj, whose
//   result the backward needs only with norms on outputs), and never the output layer;
// - recompute=selective with core_attn and unfused attention: the forward of attention's two products over
//   the scores that ModelFlops counts, 4 B s^2 h l without windows and chunks;
// - recompute=selective with mlp: the projections into the feed-forward block;
// - other parts, and core_attn with fused attention: nothing.
//
// Requires a legal plan with a resolved split.
double HardwareFlops(const ModelSpec& model, const ParallelPlan& plan, double tokens, double seq_len);

// Returns the FLOPs that published rates count for runs that recompute every layer's whole forward: 96 B s l
// h^2 (1 + s/6h + V/16lh) of Narayanan et al. 2021 (eq. 3), generalised like ModelFlops. Used to convert such
// rates into step times.
double PublishedHardwareFlops(const ModelSpec& model, double tokens, double seq_len);

// Returns the device's peak rate for matrix products in this precision, in FLOP/s; empty if unknown.
std::optional<double> PeakFlops(const DeviceSpec& device, const Precision& precision);

}  // namespace autocfg
