// Records how many threads a block of each kernel had at most, for a comparison with the kernel's launch
// bounds. Those are part of the machine code that nvcc makes, not of what this compiler makes
// (tests/deploy/launch_bounds.py).
#pragma once

#include <cstddef>

namespace autocfg::cuda_emulator {

// Nothing, unless the environment variable AUTOCFG_EMULATED_LAUNCHES names a file. At its end, the process
// adds a line "LIBRARY OFFSET THREADS" for each kernel to that file; OFFSET is hexadecimal. Thread-safe.
void RecordLaunch(const void* kernel, std::size_t threads);

}  // namespace autocfg::cuda_emulator
