#include "tests/support/cuda_emulator/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/support/cuda_emulator/emulator.h"

namespace autocfg::cuda_emulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;  // of cudaMalloc
constexpr unsigned char kPoison = 0xff;

struct Allocation {
  void* mapping = nullptr;
  std::size_t mapped = 0, bytes = 0;
};

std::map<void*, Allocation>& Allocations() {
  static auto* allocations = new std::map<void*, Allocation>();
  return *allocations;
}

constexpr std::size_t RoundUp(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

void* AllocateDeviceMemory(std::size_t bytes) {
  const std::size_t usable = RoundUp(bytes, kAlignment), pages = RoundUp(usable, kPage), mapped = pages + kPage;
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* end = static_cast<unsigned char*>(mapping) + pages;
  if (mprotect(end, kPage, PROT_NONE) != 0) {
    munmap(mapping, mapped);
    return nullptr;
  }
  std::memset(mapping, kPoison, pages);
  Allocations()[end - usable] = {mapping, mapped, bytes};
  return end - usable;
}

void FreeDeviceMemory(void* data) {
  CheckDeviceMemory();
  const auto found = Allocations().find(data);
  if (found == Allocations().end()) Fail("cudaFree of memory that is not from cudaMalloc");
  munmap(found->second.mapping, found->second.mapped);
  Allocations().erase(found);
}

void CheckDeviceMemory() {
  for (const auto& [data, allocation] : Allocations()) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    const std::size_t end = RoundUp(allocation.bytes, kAlignment);
    for (std::size_t i = allocation.bytes; i < end; ++i) {
      if (bytes[i] != kPoison) Fail("a kernel wrote beyond the end of an allocation of " + std::to_string(allocation.bytes) + " bytes");
    }
  }
}

void MemorySnapshot::Take() {
  contents_.clear();
  for (const auto& [data, allocation] : Allocations()) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    contents_.emplace_back(bytes, bytes + allocation.bytes);
  }
}

void MemorySnapshot::Restore() const {
  auto content = contents_.begin();
  for (const auto& [data, allocation] : Allocations()) std::memcpy(data, (content++)->data(), allocation.bytes);
}

std::string MemorySnapshot::Difference() const {
  auto content = contents_.begin();
  for (const auto& [data, allocation] : Allocations()) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    const auto [theirs, ours] = std::mismatch(content->begin(), content->end(), bytes);
    if (theirs != content->end()) {
      return "byte " + std::to_string(theirs - content->begin()) + " of an allocation of " + std::to_string(allocation.bytes) + " bytes";
    }
    ++content;
  }
  return {};
}

}  // namespace autocfg::cuda_emulator
