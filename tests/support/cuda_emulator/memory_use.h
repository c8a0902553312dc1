// Tracks the used memory of the emulated device. By default each process has its own device of 1 GiB. If
// AUTOCFG_EMULATED_GPU names a directory, all processes with that directory share one device of
// AUTOCFG_EMULATED_GPU_BYTES, as they would share a real one. Memory is taken in pages of 2 MiB and is
// returned when the process ends, however it ends. One thread of a process at a time.
#pragma once

#include <cstddef>

namespace autocfg::cuda_emulator {

// Returns false if less than `bytes` is left.
bool TakeMemory(std::size_t bytes);
void GiveMemory(std::size_t bytes);

struct MemoryState {
  std::size_t free = 0, total = 0;
};
MemoryState MemoryOfDevice();

}  // namespace autocfg::cuda_emulator
