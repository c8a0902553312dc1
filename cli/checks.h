// What this machine can do and what is missing, check by check. Reads the machine and the environment; leaves no trace. Use from one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

enum class CheckState : std::uint8_t { kOk, kWarning, kMissing };
std::string_view Name(CheckState state);  // "ok", "warning", "missing"

struct Check {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string found;   // what is there
  std::string advice;  // what to do; empty where nothing is
};

Check CheckCores();
Check CheckMemory();
Check CheckSharedMemory(const std::string& directory = "/dev/shm");
Check CheckDescriptors();
// BLAS and UCX: those that the trainer program loads.
std::vector<Check> CheckLibraries(const std::string& trainer);
// `root` goes in front of /proc and /dev: "" outside of tests.
Check CheckGpus(const std::string& root = "");
Check CheckCudaEngine();
// `database`: --db, or empty for the default.
std::vector<Check> CheckStorage(const std::string& database);
Check CheckTrainer(const std::string& trainer);
// One step of a small model over two ranks, with the trainer program. This is what says whether the CPU engine can run.
Check CheckEngine(const std::string& trainer);

// All of them, the engine last.
std::vector<Check> CheckMachine(const std::string& database);

}  // namespace autocfg
