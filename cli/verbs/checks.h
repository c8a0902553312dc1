// Checks what this machine can do and what is missing. Reads the machine and the environment and leaves
// nothing behind. Use from one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/nvml/gpus.h"

namespace autocfg::cli {

enum class CheckState : std::uint8_t { kOk, kWarning, kMissing };
std::string_view Name(CheckState state);  // "ok", "warning", "missing"

struct Check {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string found;   // what is there
  std::string advice;  // what to do; empty if nothing
};

Check CheckCores();
Check CheckMemory();
Check CheckSharedMemory(const std::string& directory = "/dev/shm");
Check CheckDescriptors();
// Checks the BLAS and UCX libraries that the trainer program loads.
std::vector<Check> CheckLibraries(const std::string& trainer);
// Checks the driver, then each visible GPU. `root` is prepended to /proc; it is "" outside of tests.
std::vector<Check> CheckGpus(const GpuList& list, const std::string& root = "");
// Checks the GPU engine beside the trainer program. If there is a GPU, runs one step of a small model on it.
Check CheckCudaEngine(const std::string& trainer, const GpuList& list);
// `database`: value of --db, or empty for the default.
std::vector<Check> CheckStorage(const std::string& database);
Check CheckTrainer(const std::string& trainer);
// Runs one step of a small model on two ranks with the trainer program. Its result decides if the CPU engine
// can run.
Check CheckEngine(const std::string& trainer);

// Runs all checks, the engine check last.
std::vector<Check> CheckMachine(const std::string& database);

}  // namespace autocfg::cli
