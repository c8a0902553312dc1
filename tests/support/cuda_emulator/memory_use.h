// What is in use of the emulated device's memory. It is the process's own, and of 1 GiB, unless
// AUTOCFG_EMULATED_GPU names a directory: then all processes with that directory share one device, as they do
// a real one, of AUTOCFG_EMULATED_GPU_BYTES. It gives memory in pages of 2 MiB, and gets back what a process
// had when that ends, however it ends. One thread of a process at a time.
#pragma once

#include <cstddef>

namespace autocfg::cuda_emulator {

// False where so much is not left.
bool TakeMemory(std::size_t bytes);
void GiveMemory(std::size_t bytes);

struct MemoryState {
  std::size_t free = 0, total = 0;
};
MemoryState MemoryOfDevice();

}  // namespace autocfg::cuda_emulator
