// The memory of the emulated device: how much of it is used, and the allocations of cudaMalloc. One thread of
// a process at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace autocfg::cuda_emulator {

// By default each process has its own device of 1 GiB. If AUTOCFG_EMULATED_GPU names a directory, all
// processes with that directory share one device of AUTOCFG_EMULATED_GPU_BYTES, as they would share a real
// one. Memory is taken in pages of 2 MiB and is returned when the process ends, however it ends.

// Returns false if less than `bytes` is left.
bool TakeMemory(std::size_t bytes);
void GiveMemory(std::size_t bytes);

struct MemoryState {
  std::size_t free = 0, total = 0;  // bytes
};
MemoryState MemoryOfDevice();

// An access beyond the end of an allocation, rounded up to 256 bytes, faults. CheckDeviceMemory finds a write
// between the end and the rounded end. Memory starts as NaN.
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
