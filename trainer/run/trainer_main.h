// The trainer process: one rank of one job, as its launcher says over the inherited socket.
#pragma once

namespace autocfg {

// autocfg-trainer --launcher-fd=N [--cpu-list=0,1,...] | --version | --help. Returns the exit status: 0 the
// result was sent; 1 the job failed and the error was sent; 2 bad usage.
int TrainerMain(int argc, char** argv);

}  // namespace autocfg
