// How failures lengthen a run that writes checkpoints, and how often it should write them. Pure functions,
// thread-safe.
//
// Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, Future
// Generation Computer Systems 22 (2006), with its symbols: M, delta, R, tau, T_s (time to solution without
// checkpoints and failures) and T_w (expected wall time). Failures are a Poisson process; they may also occur
// while a checkpoint is written and while the job restarts. What was done since the last checkpoint is lost.
#pragma once

namespace autocfg {

// Seconds. Requires mtbf_s > 0 (infinity: it never fails), checkpoint_s > 0 and restart_s >= 0.
struct FailureTimes {
  double mtbf_s = 0;        // M: mean time between failures of the whole job
  double checkpoint_s = 0;  // delta: the job stands still for so long to write a checkpoint
  double restart_s = 0;     // R: from a failure until the job computes again, from its last checkpoint
};

// Returns the mean time between failures of a job of `nodes` nodes, each of which ends it: that of the
// superposition of Poisson processes.
double JobMtbfSeconds(double node_mtbf_s, double nodes);

// Returns the seconds of computing between two checkpoints that make the expected wall time shortest:
// sqrt(2 delta M) [1 + sqrt(delta / 2M) / 3 + (delta / 2M) / 9] - delta where delta < 2M, else M. Infinity if
// the job never fails.
double BestCheckpointInterval(const FailureTimes& times);

// Returns T_w / T_s = M exp(R/M) (exp((tau + delta) / M) - 1) / tau for checkpoints after every `interval_s`
// (tau) seconds of computing. It is exact for a whole number of intervals. 1 for an infinite M and tau;
// infinity where the figure exceeds a double. Requires interval_s > 0.
double ExpectedSlowdown(const FailureTimes& times, double interval_s);

// Returns whether the job makes progress worth the name: it mostly lives long enough to write a checkpoint
// (M > delta), and its expected time is a number.
bool Progresses(const FailureTimes& times);

}  // namespace autocfg
