// The trainer process: one rank of one job, controlled by its launcher over the inherited socket.
#pragma once

#include <exception>

#include "autocfg/v1/trainer.pb.h"

namespace autocfg::trainer {

// Runs autocfg-trainer --launcher-fd=N [--cpu-list=0,1,...] | --version | --help. Returns the exit status: 0
// if the result was sent, 1 if the job failed and the error was sent, 2 for bad usage.
int TrainerMain(int argc, char** argv);

// Converts an exception to the error that the rank reports: a code of trainer.proto and a one-line message.
// Thread-safe.
v1::RankError ToRankError(const std::exception_ptr& error);

}  // namespace autocfg::trainer
