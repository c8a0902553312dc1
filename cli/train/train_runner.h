// Starts the ranks of a training run in this process, without a coordinator.
#pragma once

#include "autocfg/v1/worker_service.pb.h"
#include "search/plan/cluster/engine_device.h"
#include "search/plan/run_view.h"

namespace autocfg::cli {

struct TrainArgs;  // cli/train/train_options.h
struct TrainRun;   // cli/train/train_run.h

// Returns the launcher's job with the number of ranks, the model, the workload, the plan and its program's
// fingerprint. Shared by all verbs that start ranks themselves. Requires a plan that the engine runs, with a
// resolved split and a program of allowed size. Pure, thread-safe.
v1::Job MakeTrainJob(const RunView& run, EngineDevice device);

// Starts the ranks, shows their steps, prints the answer and writes the trace. Requires a run that passed the
// checks of train_run.h. Prints any error itself and returns the exit code. Use from one thread at a time: it
// handles the interrupts of the whole process (cli/terminal/interrupt.h).
int CarryOut(TrainRun run, const TrainArgs& args);

}  // namespace autocfg::cli
