// The memory that emulated cudaMalloc gives: an access beyond its end, rounded up to 256 bytes, faults, and a write between its end and there
// is found by CheckDeviceMemory. It starts as NaN. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace autocfg::cuda_emulator {

void* AllocateDeviceMemory(std::size_t bytes);  // null where there is none
void FreeDeviceMemory(void* data);              // aborts for memory that is not of AllocateDeviceMemory
void CheckDeviceMemory();                       // aborts where something was written beyond the end of an allocation

// All that is allocated.
class MemorySnapshot {
 public:
  void Take();
  void Restore() const;
  std::string Difference() const;  // between the memory and the snapshot: where the first one is; empty where there is none

 private:
  std::vector<std::vector<unsigned char>> contents_;  // in the order of the allocations' addresses
};

}  // namespace autocfg::cuda_emulator
