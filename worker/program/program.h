// The program autocfg-worker: a worker as its own process. Its exit codes, its command line, its main.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "base/service/log_output.h"
#include "worker/program/worker.h"

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

// What the command line says. The program adds what it finds on its machine.
struct ProgramOptions : WorkerOptions {
  ProgramOptions() { wait_s = 60; }
  std::string devices = "auto";
  std::int64_t slots = 0;    // 0: one per core or GPU
  std::string engine_files;  // directory of engines' files; empty: none
  std::string heartbeat;     // file that says when the worker last went on; empty: none
  std::string address;       // of this machine for other workers; empty: that of the interface
  // For ranks of jobs on several machines; empty: the one that reaches the coordinator.
  std::string interface;
  base::LogOutput log;
};

// The program must exit with this code; `message` is one error line if the code is not 0.
struct ProgramEnd {
  int exit_code = 0;
  std::string message = {};
};

std::variant<ProgramOptions, ProgramEnd> ParseProgramOptions(int argc, const char* const* argv);

// Converts a host name to a valid worker ID: replaces characters other than letters, digits, '-', '_' and '.'
// by '-'.
std::string WorkerIdOf(const std::string& hostname);

}  // namespace autocfg::worker
