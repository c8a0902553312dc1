// Times ops on scratch tensors while all ranks of the job work at once, so that the times apply to runs that
// load the machine in the same way. One rank, one thread; collective over the world.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "autocfg/v1/trainer.pb.h"
#include "search/ops/op_desc.h"
#include "trainer/backend/backend.h"

namespace autocfg::trainer {

struct TimingProgress {
  std::int64_t passed = 0;  // ops that have been timed or left out
  std::int64_t all = 0;
  double left_s = 0;                 // if the other ops take as long as those on average, or until the limit
  std::optional<OpTime> timed = {};  // the last of them; nothing if it was left out
  std::int64_t device_overhead_bytes = 0;  // Calibrate: if it is known already
};
using TimingWatch = std::function<void(const TimingProgress&)>;

struct TimingOptions {
  double budget_s = 0;  // for repetitions; each op runs at least twice
  // Seconds after which only the ops that others are estimated from are timed (timing_order.h); 0: no limit
  double limit_s = 0;
  TimingWatch watch = {};  // called after each op
};

// Returns the time of an execution of each op: the median over repetitions, or the mean if ranks share cores.
// Leaves out ops once the limit is over, the same ones on every rank.
//
// If ranks share cores, most short samples run on an otherwise free core, and a few wait for a whole time
// slice of another rank. The median would hide this load, so the mean is used.
//
// A device other than the host also gives the time in which the host issues a compute op (OpTime::host_s):
// the median too, of the same samples.
//
// Times are measured on the device's own clock (StreamTimer): on a GPU, by events on the stream. Each op runs
// once to warm up, then for its share of the budget, the same number of times on every rank; an op of 0.2 s
// or more may run once. Communication
// runs in groups of consecutive ranks of the op's size; leftover ranks wait. A group's communicator is
// created once for all ops of that group. A send or receive takes half of a round trip between neighbours.
// Throws BadInput for an op that cannot run: sizes that are not positive or do not match, a kind or type that
// the device does not support, or a group larger than the world. Throws the device's error if memory is
// insufficient.
std::vector<OpTime> TimeOps(const std::vector<OpDesc>& ops, const TimingOptions& options, std::int64_t rank,
                            std::int64_t world_size, Backend& backend);

// Does the same for the launcher's messages.
v1::CalibrateResult Calibrate(const v1::CalibrateSpec& spec, std::int64_t rank, std::int64_t world_size,
                              Backend& backend, const TimingWatch& watch = {});

}  // namespace autocfg::trainer
