#include "tests/support/cuda_emulator/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "tests/support/cuda_emulator/emulator.h"

namespace autocfg::cuda_emulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;                     // of cudaMalloc
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;  // of a snapshot

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
  const std::size_t usable = RoundUp(bytes, kAlignment), pages = RoundUp(usable, kPage),
                    mapped = pages + kPage;
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
      if (bytes[i] != kPoison)
        Fail("a kernel wrote beyond the end of an allocation of " + std::to_string(allocation.bytes) +
             " bytes");
    }
  }
}

bool IsPoison(const unsigned char* data, std::size_t bytes) {
  return bytes == 0 || (*data == kPoison && std::memcmp(data, data + 1, bytes - 1) == 0);
}

void MemorySnapshot::Take() {
  pieces_.clear();
  contents_.clear();
  for (const auto& [data, allocation] : Allocations()) {
    auto* const bytes = static_cast<unsigned char*>(data);
    for (std::size_t i = 0; i < allocation.bytes; i += kPieceBytes) {
      const std::size_t n = std::min(kPieceBytes, allocation.bytes - i);
      pieces_.push_back({bytes + i, n, IsPoison(bytes + i, n)});
      if (!pieces_.back().poison) contents_.insert(contents_.end(), bytes + i, bytes + i + n);
    }
  }
}

void MemorySnapshot::Restore() const {
  const unsigned char* content = contents_.data();
  for (const Piece& piece : pieces_) {
    if (!piece.poison) {
      std::memcpy(piece.data, content, piece.bytes);
      content += piece.bytes;
    } else if (!IsPoison(piece.data, piece.bytes)) {
      std::memset(piece.data, kPoison, piece.bytes);
    }
  }
}

std::string MemorySnapshot::Difference() const {
  const unsigned char* content = contents_.data();
  for (const Piece& piece : pieces_) {
    const bool same =
        piece.poison ? IsPoison(piece.data, piece.bytes) : std::memcmp(piece.data, content, piece.bytes) == 0;
    if (!same) {
      const auto [data, allocation] = *std::prev(Allocations().upper_bound(piece.data));
      std::size_t at = 0;
      while (piece.data[at] == (piece.poison ? kPoison : content[at])) ++at;
      return "byte " +
             std::to_string(piece.data - static_cast<unsigned char*>(data) +
                            static_cast<std::ptrdiff_t>(at)) +
             " of an allocation of " + std::to_string(allocation.bytes) + " bytes";
    }
    if (!piece.poison) content += piece.bytes;
  }
  return {};
}

}  // namespace autocfg::cuda_emulator
