#include "kernels/cpu/cpu_device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "kernels/arena.h"
#include "kernels/cpu/blas.h"

namespace autocfg {
namespace {

// Uses large pages. With 4 KiB pages, a step over gigabytes of weights spends much of its time on address
// translation.
constexpr std::int64_t kLargePage = std::int64_t{2} << 20;

class CpuStream final : public Stream {
 public:
  void Synchronize() override {}
};

// Returns the bytes that an allocation of `bytes` occupies.
std::int64_t MappedBytes(std::int64_t bytes) {
  const std::int64_t unit = bytes >= kLargePage ? kLargePage : 4096;
  return (bytes + unit - 1) / unit * unit;
}

std::int64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) throw DeviceError("cpu: cannot read /proc/self/statm; is /proc mounted?");
  long long total = 0, resident = 0;
  const int fields = std::fscanf(file, "%lld %lld", &total, &resident);
  std::fclose(file);
  if (fields != 2) throw DeviceError("cpu: /proc/self/statm does not hold two numbers");
  return resident * sysconf(_SC_PAGESIZE);
}

// Returns the size of the largest cache of the first CPU, which Linux tells in KiB; 0 if it tells none.
// sysconf(3) counts the caches of all cores of some processors as one.
std::int64_t LargestCacheBytes() {
  constexpr int kMostCaches = 16;
  std::int64_t most = 0;
  for (int i = 0; i < kMostCaches; ++i) {
    std::FILE* file =
        std::fopen(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", i).c_str(), "r");
    if (file == nullptr) break;
    long long kib = 0;
    char unit = 0;
    if (std::fscanf(file, "%lld%c", &kib, &unit) == 2 && unit == 'K' && kib < (1LL << 32))
      most = std::max<std::int64_t>(most, kib << 10);
    std::fclose(file);
  }
  return most;
}

class CpuDevice final : public Device {
 public:
  std::string Name() const override { return "cpu"; }
  bool ComputesOnHost() const override { return true; }
  bool ComputesIn(DType type) const override { return type == DType::kF32 || type == DType::kF64; }

  // Anonymous pages are zero. Touches them here, so that a step never waits for page faults.
  void* Allocate(std::int64_t bytes) override {
    if (bytes < 1) throw DeviceError(fmt::format("cpu: an allocation of {} bytes; need at least 1", bytes));
    if (bytes > kMaxBytes) Refuse(bytes);
    const std::int64_t mapped = MappedBytes(bytes);
    const std::int64_t slack = mapped >= kLargePage ? kLargePage : 0;
    void* raw = mmap(nullptr, static_cast<std::size_t>(mapped + slack), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) Refuse(bytes);
    char* data = static_cast<char*>(raw);
    if (slack > 0) {
      const auto misalignment =
          static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) % kLargePage);
      const std::int64_t head = misalignment == 0 ? 0 : kLargePage - misalignment;
      if (head > 0) munmap(data, static_cast<std::size_t>(head));
      data += head;
      if (slack > head) munmap(data + mapped, static_cast<std::size_t>(slack - head));
      madvise(data, static_cast<std::size_t>(mapped),
              MADV_HUGEPAGE);  // only a hint: kernels without large pages work too
    }
    for (std::int64_t i = 0; i < mapped; i += 4096) static_cast<volatile char*>(data)[i] = 0;
    return data;
  }

  void Free(void* data, std::int64_t bytes) noexcept override {
    if (data != nullptr) munmap(data, static_cast<std::size_t>(MappedBytes(bytes)));
  }

  std::unique_ptr<Stream> CreateStream() override { return std::make_unique<CpuStream>(); }

  void CopyFromHost(void* device, const void* host, std::int64_t bytes, Stream& /*stream*/) override {
    std::memcpy(device, host, static_cast<std::size_t>(bytes));
  }
  void CopyToHost(void* host, const void* device, std::int64_t bytes, Stream& /*stream*/) override {
    std::memcpy(host, device, static_cast<std::size_t>(bytes));
  }
  void CopyWithin(void* to, const void* from, std::int64_t bytes, Stream& /*stream*/) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  std::int64_t CacheBytes() const override { return LargestCacheBytes(); }

  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    return std::max<std::int64_t>(0, ResidentBytes() - arena_bytes);
  }

 private:
  // Larger addresses do not exist, and sums of sizes could overflow.
  static constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;

  [[noreturn]] static void Refuse(std::int64_t bytes) {
    const std::int64_t free = sysconf(_SC_AVPHYS_PAGES) * static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
    throw DeviceOutOfMemory(bytes, free, fmt::format("cpu: the system refuses {} bytes of memory", bytes));
  }
};

}  // namespace

std::unique_ptr<Device> CreateCpuDevice() {
  cpu::UseOneBlasThread();
  return std::make_unique<CpuDevice>();
}

}  // namespace autocfg
