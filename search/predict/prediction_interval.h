// The 90% interval around a predicted step time: without measurements of the cluster, or on a cluster that
// was fitted to measured steps. Pure, thread-safe.
#pragma once

#include "search/cost/cost_model.h"

namespace autocfg {

// The 90% interval around a step time without measurements of its cluster: the relative margins below and
// above.
//
// First figures: models of this kind miss runs that they were not fitted to by 8 to 9% (one standard
// deviation), of which 1.64 cover 90%. The rest allows for devices without any observed run. Real runs lose
// time in more ways than they gain it: 6 of 296 published runs lie below, and 82% of 45 runs on many nodes of
// A100s (measurements published with vTrain, 2024) lie within. A calibrated
// cluster's interval comes from its fit.
inline constexpr double kUncalibratedBelow = 0.20;
inline constexpr double kUncalibratedAbove = 0.30;

// Seconds in which a slow host, with a framework that issues its ops from a script, issues one op of
// search/blocks; an op of several kernels counts all their launches.
//
// This is an upper figure, from the step times of small GPTs on A100s in the measurements published with
// vTrain (2024). There a layer's forward, recomputation and backward take at least 3.0 to 3.2 ms on one GPU
// (130 us for each of our 24 computes), and 3.7 to 5.0 ms over eight (up to 185 us for each of 27). Work
// outside the layers adds to that. With this figure, the upper bound is above 89% of those step times
// (bench/results/accuracy.json, one_node_without_fit).
inline constexpr double kScriptedHostOpSeconds = 170e-6;

// Margins of the share of a step in which the device waits for a host whose speed is its engine's typical one
// (host_op_s and step_s of EngineProfile). Hosts and releases differ more than devices: in Megatron-LM's
// functional tests, whose steps the host binds, the same step takes up to twice as long on another machine.
inline constexpr double kTypicalHostBelow = 0.25;
inline constexpr double kTypicalHostAbove = 1.25;

// Sets the low and high bounds around step_time_s by these margins. If neither the cluster nor the engine
// gives the host's speed, the high bound is at least the step time with such a framework; returns true if
// that raises it.
// Applies to GPUs only: a CPU is its own host. `plan` is the prediction's plan in the form that CostModel
// requires.
bool SetUncalibratedInterval(Prediction& prediction, CostModel& costs, const ParallelPlan& plan);

// Standard deviations between the middle and an end of a 90% interval of a normal distribution.
inline constexpr double kSigmasOf90Percent = 1.645;

// Standard deviation of log(measured / predicted) of steps that span several nodes where only steps within a
// node were measured, or the other way round. The same estimate as that of clusters without measurements
// (kUncalibratedBelow).
inline constexpr double kUnseenNodesSigma = 0.12;

// Delays of steps over several nodes are common: how far slower ones scatter, over how far faster ones do.
inline constexpr double kSlowerOverFaster = 2;

// Sets the low and high bounds around step_time_s by two deviations of log(measured / predicted), to the side
// of faster and of slower steps: that of the calibration's own steps, and those of the plan's blocks, which
// are large for shapes unlike all that was measured, by their share of the step. Requires a cluster with a
// calibration and the prediction of this plan by `costs`.
void SetCalibratedInterval(Prediction& prediction, CostModel& costs, const ParallelPlan& plan);

// Sets them by the cluster's calibration if it has one, else as SetUncalibratedInterval; returns what that
// returns.
bool SetDescribedInterval(Prediction& prediction, CostModel& costs, const ParallelPlan& plan);

}  // namespace autocfg
