// The program autocfg-worker: a worker as a process of its own.
#pragma once

#include <functional>

namespace autocfg {

// Exit codes. deploy/systemd/autocfg-worker.service starts it again after all but the first three.
inline constexpr int kExitDone = 0;         // stopped by SIGTERM or SIGINT, or drained
inline constexpr int kExitSuperseded = 1;   // another worker has registered under its name
inline constexpr int kExitUsage = 2;        // what it was told, or what it runs on, cannot work
inline constexpr int kExitUnreachable = 3;  // no coordinator, or one that cannot take a worker now
inline constexpr int kExitInternal = 70;    // an error of its own (EX_SOFTWARE of sysexits.h)

int WorkerMain(int argc, char** argv);

// What `program` returns; kExitInternal, with one line of error, where it throws.
int CatchingAll(const std::function<int()>& program);

}  // namespace autocfg
