// Where the GPU part of the training engine is. Thread-safe.
#pragma once

#include <string>

namespace autocfg {

inline constexpr char kGpuEngine[] = "libautocfg_cuda.so";

// The GPU part of the training engine, beside a trainer program or in ../bin of it, where the trainer itself
// looks for it; empty: there is none.
std::string FindGpuEngine(const std::string& trainer);

// That there is none, in words.
std::string NoGpuEngine(const std::string& trainer);

}  // namespace autocfg
