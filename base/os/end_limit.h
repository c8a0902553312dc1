// Limits how long a program takes to end, whatever its threads do: a thread that computes, a call that does
// not return, threads that the system no longer gives. The limit is a timer of the kernel; it needs no thread
// and no memory when it starts. There is one limit per process.
#pragma once

#include <string>

namespace autocfg::base {

struct EndLimit {
  std::string program;  // of the line on standard error
  int seconds = 10;     // positive
  int exit_status = 70;
};

// Prepares the limit. Replaces the handler of SIGALRM, which the program must not use otherwise. Call before
// other threads start.
void PrepareEndLimit(const EndLimit& limit);

// Starts the time. When it is over, the process writes one line to standard error and exits with the status,
// without running destructors. Later calls change nothing. Async-signal-safe; does nothing unless prepared.
void StartEndLimit();

}  // namespace autocfg::base
