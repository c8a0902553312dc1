#include "tests/support/cuda_emulator/memory_use.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/cuda_emulator/emulator.h"
#include "tests/support/cuda_emulator/host_api.h"

namespace autocfg::cuda_emulator {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSharedPage = std::size_t{2} << 20;

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

std::size_t Pages(std::size_t bytes) { return (bytes + kSharedPage - 1) / kSharedPage * kSharedPage; }

}  // namespace

bool TakeMemory(std::size_t bytes) {
  if (Directory().empty()) {
    if (own_bytes + bytes > total_bytes) return false;
    own_bytes += bytes;
    return true;
  }
  const Lock lock;
  if (OfOthers() + own_bytes + Pages(bytes) > SharedTotal()) return false;
  own_bytes += Pages(bytes);
  WriteOwn();
  return true;
}

void GiveMemory(std::size_t bytes) {
  if (Directory().empty()) {
    own_bytes -= bytes;
    return;
  }
  const Lock lock;
  own_bytes -= Pages(bytes);
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

}  // namespace autocfg::cuda_emulator
