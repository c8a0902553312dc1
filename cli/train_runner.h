// Carries a training run out: starts its ranks, shows their steps, answers, writes the trace. From one thread
// at a time: it takes the interrupts of the whole process (interrupt.h).
#pragma once

#include "cli/train_run.h"

namespace autocfg {

// Requires a run that passed train_checks.h. Returns the exit code; what goes wrong has been said.
int CarryOut(TrainRun run, const TrainArgs& args);

}  // namespace autocfg
