// Times ops on scratch tensors, with all ranks of the job at work at once, so that the times hold for runs
// that load the machine in the same way. One rank, one thread; collective over the world.
#pragma once

#include <cstdint>
#include <vector>

#include "autocfg/v1/trainer.pb.h"
#include "search/ops/op_desc.h"
#include "trainer/run/backend.h"

namespace autocfg {

struct TimedOp {
  OpDesc op;
  double seconds =
      0;  // for one execution: the median over repetitions, or, where ranks share cores, the mean
};

// Where ranks share cores, most short samples see a core of their own and a few wait for a whole time slice
// of another rank: the median would hide the load that it is about, so the mean is taken.
//
// Timed on the device's own clock (StreamTimer): on a GPU by events on the stream. Each op is run once to
// warm up, then for its share of the budget, the same number of times on every rank. Communication runs in
// groups of consecutive ranks of the op's size; ranks left over wait. A group's communicator is made once for
// all ops of that group. A send or receive takes half of a round trip between neighbours. Throws BadInput for
// an op that cannot be run: a size that is not positive, sizes that do not fit together, a kind or type that
// the device does not run, a group larger than the world; what devices throw where memory does not suffice.
std::vector<TimedOp> TimeOps(const std::vector<OpDesc>& ops, double budget_s, std::int64_t rank,
                             std::int64_t world_size, Backend& backend);

// The launcher's form of it.
v1::CalibrateResult Calibrate(const v1::CalibrateSpec& spec, std::int64_t rank, std::int64_t world_size,
                              Backend& backend);

}  // namespace autocfg
