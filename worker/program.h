// The program autocfg-worker: a worker as a process of its own.
#pragma once

namespace autocfg {

// Exit code: 0 stopped by SIGTERM or SIGINT, or drained; 1 superseded by another worker of its name, or an
// error of its own; 2 bad usage; 3 the coordinator cannot be reached.
int WorkerMain(int argc, char** argv);

}  // namespace autocfg
