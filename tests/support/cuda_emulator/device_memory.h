// The memory of emulated cudaMalloc. An access beyond its end, rounded up to 256 bytes, faults.
// CheckDeviceMemory finds a write between the end and the rounded end. Memory starts as NaN. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace autocfg::cuda_emulator {

void* AllocateDeviceMemory(std::size_t bytes);  // null if there is no memory
void FreeDeviceMemory(void* data);              // aborts for memory that is not from AllocateDeviceMemory
// aborts if something was written beyond the end of an allocation
void CheckDeviceMemory();

// Initial value of device memory, and of shared memory in each block: NaN in every floating-point type.
inline constexpr unsigned char kPoison = 0xff;
bool IsPoison(const unsigned char* data, std::size_t bytes);

// A copy of all allocated memory. Ranges that are still poison, such as most of a library's workspace, are
// not copied.
class MemorySnapshot {
 public:
  void Take();
  void Restore() const;
  // returns the first difference between the memory and the snapshot; empty if there is none
  std::string Difference() const;

 private:
  struct Piece {
    unsigned char* data;
    std::size_t bytes;
    bool poison;
  };
  std::vector<Piece> pieces_;
  std::vector<unsigned char> contents_;  // the pieces that are not poison, concatenated
};

}  // namespace autocfg::cuda_emulator
