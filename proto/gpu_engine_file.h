// Locates the GPU part of the training engine, for the trainer, which loads it, and for programs that start
// trainers. Thread-safe unless the environment changes concurrently.
#pragma once

#include <string>

namespace autocfg {

inline constexpr char kGpuEngine[] = "libautocfg_cuda.so";

// Returns the engine file for the program `trainer`: the value of AUTOCFG_GPU_MODULE if set, else kGpuEngine
// beside the program or in ../bin relative to it. Empty if the file does not exist. A value without a slash
// is returned unchecked; the dynamic loader searches for it.
std::string FindGpuEngine(const std::string& trainer);

// Returns the error text for a missing engine.
std::string NoGpuEngine(const std::string& trainer);

}  // namespace autocfg
