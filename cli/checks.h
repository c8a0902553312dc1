// What this machine can do and what is missing, check by check. Reads the machine and the environment; leaves
// no trace. Use from one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/nvml/gpus.h"

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
// The driver, then each GPU that is visible. `root` goes in front of /proc: "" outside of tests.
std::vector<Check> CheckGpus(const GpuList& list, const std::string& root = "");
// The GPU part of the engine, beside the trainer program; where there is a GPU, one step of a small model on
// it.
Check CheckCudaEngine(const std::string& trainer, const GpuList& list);
// `database`: --db, or empty for the default.
std::vector<Check> CheckStorage(const std::string& database);
Check CheckTrainer(const std::string& trainer);
// One step of a small model over two ranks, with the trainer program. This is what says whether the CPU
// engine can run.
Check CheckEngine(const std::string& trainer);

// All of them, the engine last.
std::vector<Check> CheckMachine(const std::string& database);

}  // namespace autocfg
