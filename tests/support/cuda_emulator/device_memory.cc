#include "tests/support/cuda_emulator/device_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "tests/support/cuda_emulator/emulator.h"
#include "tests/support/cuda_emulator/host_api.h"

namespace autocfg::cuda_emulator {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;                     // of cudaMalloc
constexpr std::size_t kSharedPage = std::size_t{2} << 20;   // of a device that processes share
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

std::size_t total_bytes = std::size_t{1} << 30, own_bytes = 0;

// Returns an empty path if the device belongs to this process alone.
std::string Directory() {
  const char* text = std::getenv("AUTOCFG_EMULATED_GPU");
  return text != nullptr ? text : "";
}

std::size_t SharedTotal() {
  const char* text = std::getenv("AUTOCFG_EMULATED_GPU_BYTES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : total_bytes;
}

// Held while the directory is read and written.
class Lock {
 public:
  Lock() : file_(open((Directory() + "/lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    if (file_ < 0 || flock(file_, LOCK_EX) != 0)
      Fail("AUTOCFG_EMULATED_GPU: " + Directory() + " cannot be locked");
  }
  ~Lock() { close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  const int file_;
};

// A killed process remains until it is waited for, but its memory is already free.
bool Lives(pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return false;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z' &&
         text[name_end + 2] != 'X';
}

// Sums the files of other processes; each process has one file named by its pid. Requires the lock.
std::size_t OfOthers() {
  std::size_t sum = 0;
  for (const auto& entry : fs::directory_iterator(Directory())) {
    const std::string name = entry.path().filename();
    const auto pid = static_cast<pid_t>(std::atol(name.c_str()));
    if (pid <= 0 || pid == getpid()) continue;
    if (!Lives(pid)) {
      fs::remove(entry.path());
      continue;
    }
    std::size_t bytes = 0;
    std::ifstream(entry.path()) >> bytes;
    sum += bytes;
  }
  return sum;
}

void WriteOwn() { std::ofstream(Directory() + "/" + std::to_string(getpid())) << own_bytes; }

}  // namespace

bool TakeMemory(std::size_t bytes) {
  if (Directory().empty()) {
    if (own_bytes + bytes > total_bytes) return false;
    own_bytes += bytes;
    return true;
  }
  const Lock lock;
  if (OfOthers() + own_bytes + RoundUp(bytes, kSharedPage) > SharedTotal()) return false;
  own_bytes += RoundUp(bytes, kSharedPage);
  WriteOwn();
  return true;
}

void GiveMemory(std::size_t bytes) {
  if (Directory().empty()) {
    own_bytes -= bytes;
    return;
  }
  const Lock lock;
  own_bytes -= RoundUp(bytes, kSharedPage);
  WriteOwn();
}

MemoryState MemoryOfDevice() {
  if (Directory().empty()) return {total_bytes - own_bytes, total_bytes};
  const Lock lock;
  const std::size_t used = OfOthers() + own_bytes, total = SharedTotal();
  return {used < total ? total - used : 0, total};
}

void SetFreeMemory(std::size_t bytes) {
  if (!Directory().empty()) Fail("SetFreeMemory is for a device that is the process's own");
  total_bytes = own_bytes + bytes;
}

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
