// Runs a training run: starts its ranks, shows their steps, prints the answer and writes the trace. Use from
// one thread at a time: it handles the interrupts of the whole process (interrupt.h).
#pragma once

#include "cli/train/train_run.h"

namespace autocfg::cli {

// Requires a run that passed train_checks.h. Prints any error itself and returns the exit code.
int CarryOut(TrainRun run, const TrainArgs& args);

}  // namespace autocfg::cli
