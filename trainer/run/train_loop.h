// A whole training run on one rank: its steps, their times, and the weights at the end. One rank, one thread;
// collective over the world.
#pragma once

#include <cstdint>
#include <functional>

#include "autocfg/v1/trainer.pb.h"
#include "trainer/backend/backend.h"
#include "trainer/config/train_config.h"

namespace autocfg::trainer {

using ProgressFunction = std::function<void(const v1::Progress&)>;
// Returns whether the run is asked to end before its last step. Asked after each step of a run that writes
// checkpoints.
using StopFunction = std::function<bool()>;

// Runs the steps. Calls `progress` on rank 0 only, after each step, with the time of the slowest rank. If the
// device computes nothing, losses and norms are empty. If it takes no time, the times are empty. The planned
// memory is always set. The paced device's step time is that of the latest rank. Throws the errors of
// RankTrainer, and BadInput for a trace on a device that takes no time.
//
// Saves the weights at the end, unless a step's loss or norm was not finite. In that case no rank writes
// anything, and an existing file at that path is kept.
//
// Writes checkpoints to config.checkpoint_path every config.save_every steps and after the last one, under
// the same condition. A run that resumes reports the steps that it ran itself, and tells in the notes of its
// first Progress which checkpoint it continued from.
//
// Once `stop_requested` returns true on any rank of such a run, all ranks end after the same step, with a
// checkpoint of it, and without saving the weights of config.save_path. The result has the steps that ran.
//
// After the untimed steps (or the first step, if there are none), logs those choices of the device's ops that
// are unusual; at the end, those made since.
//
// With config.slice, `rank` and `world_size` count the copies of the slice. The result is marked as a slice
// and has no losses and norms, which are meaningless without the peers.
v1::TrainResult Train(const TrainConfig& config, std::int64_t rank, std::int64_t world_size, Backend& backend,
                      const ProgressFunction& progress, const StopFunction& stop_requested = {});

}  // namespace autocfg::trainer
