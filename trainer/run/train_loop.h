// A whole training run on one rank: steps, their times, the weights at the end. One rank, one thread;
// collective over the world.
#pragma once

#include <cstdint>
#include <functional>

#include "autocfg/v1/trainer.pb.h"
#include "trainer/run/backend.h"
#include "trainer/run/train_config.h"

namespace autocfg {

using ProgressFunction = std::function<void(const v1::Progress&)>;

// `progress` is called on rank 0 alone, after each step, with the time of the slowest rank. On a device that
// computes nothing, losses and norms stay empty, and on one that takes no time the times; the planned memory
// is what it says everywhere. The paced device's step time is that of the latest rank. Throws what
// RankTrainer throws, and BadInput for a trace on a device that takes no time.
//
// The weights are saved at the end, unless a step's loss or norm was not finite: then no rank writes
// anything, and what stood at that path stays.
//
// After the warm-up steps (the first step, where there are none) it says on the log what the device's ops
// have chosen that is not as expected.
//
// With config.slice, `rank` and `world_size` are those among the copies of the slice; the result says that it
// is one and has no losses and norms, which mean nothing without the peers.
v1::TrainResult Train(const TrainConfig& config, std::int64_t rank, std::int64_t world_size, Backend& backend,
                      const ProgressFunction& progress);

}  // namespace autocfg
