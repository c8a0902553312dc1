// The command line of autocfg-worker. Pure but for what --help and --version print.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace autocfg {

struct ProgramOptions {
  std::string coordinator;
  std::string devices = "auto";
  std::int64_t slots = 0;  // 0: one per core or GPU
  std::string name;        // of the worker, workers/{id}
  bool insecure = false;
  double wait_s = 60;
};

// The program is over: with this code, and, where it is not 0, one line of error.
struct ProgramEnd {
  int exit_code = 0;
  std::string message = {};
};

std::variant<ProgramOptions, ProgramEnd> ParseProgramOptions(int argc, const char* const* argv);

// An id that coordinators accept, made of a host's name: what is not a letter, a digit, '-', '_' or '.'
// becomes '-'.
std::string WorkerIdOf(const std::string& hostname);

}  // namespace autocfg
