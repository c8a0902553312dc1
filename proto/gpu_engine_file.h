// Where the GPU part of the training engine is: one answer for the trainer, which loads it, and for those who
// start trainers. Thread-safe, as long as nobody changes the environment meanwhile.
#pragma once

#include <string>

namespace autocfg {

inline constexpr char kGpuEngine[] = "libautocfg_cuda.so";

// The file of a trainer program: the one that AUTOCFG_GPU_MODULE names, else kGpuEngine beside the program or
// in ../bin of it. Empty: there is none. A name without a slash is the loader's to find, and is not looked
// for.
std::string FindGpuEngine(const std::string& trainer);

// That there is none, in words.
std::string NoGpuEngine(const std::string& trainer);

}  // namespace autocfg
