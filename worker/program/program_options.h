// Command line of autocfg-worker. Pure, except that --help and --version print.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace autocfg::worker {

struct ProgramOptions {
  std::string coordinator;
  std::string devices = "auto";
  std::int64_t slots = 0;  // 0: one per core or GPU
  std::string name;        // worker name, workers/{id}
  bool insecure = false;
  double wait_s = 60;
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
