// The memory that emulated cudaMalloc gives: an access beyond its end, rounded up to 256 bytes, faults, and a
// write between its end and there is found by CheckDeviceMemory. It starts as NaN. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace autocfg::cuda_emulator {

void* AllocateDeviceMemory(std::size_t bytes);  // null where there is none
void FreeDeviceMemory(void* data);              // aborts for memory that is not of AllocateDeviceMemory
// aborts where something was written beyond the end of an allocation
void CheckDeviceMemory();

// What memory starts as, and shared memory with each block: a NaN in every floating-point type.
inline constexpr unsigned char kPoison = 0xff;
bool IsPoison(const unsigned char* data, std::size_t bytes);

// All that is allocated. What is still poison, such as most of a library's workspace, is not copied.
class MemorySnapshot {
 public:
  void Take();
  void Restore() const;
  // between the memory and the snapshot: where the first one is; empty where there is none
  std::string Difference() const;

 private:
  struct Piece {
    unsigned char* data;
    std::size_t bytes;
    bool poison;
  };
  std::vector<Piece> pieces_;
  std::vector<unsigned char> contents_;  // of those that are no poison, one after the other
};

}  // namespace autocfg::cuda_emulator
