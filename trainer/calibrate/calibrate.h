// Times ops on scratch tensors while all ranks of the job work at once, so that the times apply to runs that
// load the machine in the same way. One rank, one thread; collective over the world.
#pragma once

#include <cstdint>
#include <vector>

#include "autocfg/v1/trainer.pb.h"
#include "search/ops/op_desc.h"
#include "trainer/backend/backend.h"

namespace autocfg::trainer {

// Returns the time of an execution of each op: the median over repetitions, or the mean if ranks share cores.
//
// If ranks share cores, most short samples run on an otherwise free core, and a few wait for a whole time
// slice of another rank. The median would hide this load, so the mean is used.
//
// A device other than the host also gives the time in which the host issues a compute op (OpTime::host_s):
// the median too, of the same samples.
//
// Times are measured on the device's own clock (StreamTimer): on a GPU, by events on the stream. Each op runs
// once to warm up, then for its share of the budget, the same number of times on every rank. Communication
// runs in groups of consecutive ranks of the op's size; leftover ranks wait. A group's communicator is
// created once for all ops of that group. A send or receive takes half of a round trip between neighbours.
// Throws BadInput for an op that cannot run: sizes that are not positive or do not match, a kind or type that
// the device does not support, or a group larger than the world. Throws the device's error if memory is
// insufficient.
std::vector<OpTime> TimeOps(const std::vector<OpDesc>& ops, double budget_s, std::int64_t rank,
                            std::int64_t world_size, Backend& backend);

// Does the same for the launcher's messages.
v1::CalibrateResult Calibrate(const v1::CalibrateSpec& spec, std::int64_t rank, std::int64_t world_size,
                              Backend& backend);

}  // namespace autocfg::trainer
