// The program autocfg-worker: a worker as its own process.
#pragma once

#include <functional>

namespace autocfg::worker {

// Exit codes. deploy/systemd/autocfg-worker.service restarts the program after all codes but the first three.
inline constexpr int kExitDone = 0;         // stopped by SIGTERM or SIGINT, or drained
inline constexpr int kExitSuperseded = 1;   // another worker registered under its name
inline constexpr int kExitUsage = 2;        // its options or its machine are unsuitable
inline constexpr int kExitUnreachable = 3;  // no coordinator, or it cannot accept a worker now
inline constexpr int kExitInternal = 70;    // internal error (EX_SOFTWARE of sysexits.h)

int WorkerMain(int argc, char** argv);

// Returns the result of `program`. If it throws, prints one error line and returns kExitInternal.
int CatchingAll(const std::function<int()>& program);

}  // namespace autocfg::worker
