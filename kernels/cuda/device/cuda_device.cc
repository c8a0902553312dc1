#include "kernels/cuda/device/cuda_device.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/cuda_event.h"
#include "kernels/cuda/device/cuda_stream.h"
#include "kernels/cuda/device/pinned_ring.h"

namespace autocfg::cuda {
namespace {

// Largest copy through pinned memory. The driver stages larger copies (weights) itself.
constexpr std::int64_t kMostPinnedBytes = std::int64_t{16} << 20;
// Size of the pinned ring: two of the largest copies, or tokens and targets of 128 microbatches of 32 Ki
// tokens.
constexpr std::int64_t kPinnedRingBytes = 2 * kMostPinnedBytes;

std::int64_t UsedBytes() {
  std::size_t free = 0, total = 0;
  Check(cudaMemGetInfo(&free, &total), "querying the free memory");
  return static_cast<std::int64_t>(total - free);
}

class CudaTimer final : public StreamTimer {
 public:
  void Start(Stream& stream) override { start_.Record(HandleOf(stream)); }
  void Stop(Stream& stream) override {
    stop_.Record(HandleOf(stream));
    stream_ = &stream;
  }
  double Seconds() override {
    stream_->Synchronize();  // not cudaEventSynchronize: stream waits call the host wait hook
    return SecondsBetween(start_, stop_);
  }

 private:
  TimedEvent start_, stop_;
  Stream* stream_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal) {
    const int count = DeviceCount();
    if (ordinal < 0 || ordinal >= count) {
      throw DeviceError(
          fmt::format("GPU {} was requested, but {} {} visible", ordinal, count, count == 1 ? "is" : "are"));
    }
    Check(cudaSetDevice(ordinal), fmt::format("opening GPU {}", ordinal));
    // creates the context now, not in the first op
    Check(cudaFree(nullptr), fmt::format("opening GPU {}", ordinal));
    pinned_.emplace(kPinnedRingBytes);
  }

  std::string Name() const override { return "cuda"; }
  bool ComputesOnHost() const override { return false; }
  bool ComputesIn(DType type) const override { return type == DType::kF32 || type == DType::kBF16; }

  void* Allocate(std::int64_t bytes) override {
    const std::size_t size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, size);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      std::size_t free = 0, total = 0;
      const bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
      const std::int64_t available = known ? static_cast<std::int64_t>(free) : -1;
      throw DeviceOutOfMemory(bytes, available,
                              fmt::format("the GPU has no {} bytes left; {} are free", bytes, available));
    }
    Check(status, fmt::format("allocating {} bytes of GPU memory", bytes));
    Check(cudaMemset(data, 0, size), "clearing memory");
    Check(cudaDeviceSynchronize(), "clearing memory");
    return data;
  }

  // fails only if the device is lost
  void Free(void* data, std::int64_t) noexcept override { (void)cudaFree(data); }

  std::unique_ptr<Stream> CreateStream() override { return std::make_unique<CudaStream>(); }
  std::unique_ptr<StreamTimer> CreateTimer() override { return std::make_unique<CudaTimer>(); }

  void CopyFromHost(void* device, const void* host, std::int64_t bytes, Stream& stream) override {
    if (bytes <= kMostPinnedBytes) {
      pinned_->Copy(device, host, bytes, HandleOf(stream));
      return;
    }
    stream.Synchronize();  // as before a copy to the host
    Check(cudaMemcpyAsync(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                          HandleOf(stream)),
          "a copy to the device");
    stream.Synchronize();
  }

  // For memory that is not pinned, the driver copies before its call returns. That call would block on the
  // stream without running the host wait hook, so a dead peer would go unnoticed.
  void CopyToHost(void* host, const void* device, std::int64_t bytes, Stream& stream) override {
    if (!IsPinned(host)) stream.Synchronize();
    Check(cudaMemcpyAsync(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost,
                          HandleOf(stream)),
          "a copy from the device");
  }

  void CopyWithin(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    Check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                          HandleOf(stream)),
          "a copy within the device");
  }

  void* AllocateHost(std::int64_t bytes) override {
    void* data = nullptr;
    CheckHost(cudaMallocHost(&data, static_cast<std::size_t>(bytes)),
              fmt::format("allocating {} bytes of pinned memory", bytes));
    pinned_bytes_[static_cast<const char*>(data)] = bytes;
    return data;
  }
  void FreeHost(void* data, std::int64_t) noexcept override {
    pinned_bytes_.erase(static_cast<const char*>(data));
    (void)cudaFreeHost(data);  // fails only if the device is lost
  }

  std::int64_t CacheBytes() const override {
    int device = 0, bytes = 0;
    Check(cudaGetDevice(&device), "querying the current GPU");
    Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "querying the GPU's L2 cache");
    return bytes;
  }

  // Returns all memory in use on the GPU except the arena. If several processes share the GPU, it includes
  // theirs.
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    return std::max<std::int64_t>(UsedBytes() - arena_bytes, 0);
  }

 private:
  // Returns whether AllocateHost returned this memory.
  bool IsPinned(const void* host) const {
    const char* at = static_cast<const char*>(host);
    const auto after = pinned_bytes_.upper_bound(at);
    return after != pinned_bytes_.begin() && at - std::prev(after)->first < std::prev(after)->second;
  }

  std::optional<PinnedRing> pinned_;                  // set once the GPU is open
  std::map<const char*, std::int64_t> pinned_bytes_;  // sizes of AllocateHost's blocks, by start address
};

}  // namespace

int DeviceCount() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);  // leaves the count unchanged on failure
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
      (status == cudaSuccess && count == 0)) {
    throw DeviceError(fmt::format("no GPU: {}; use --device cpu",
                                  status == cudaSuccess ? "none is visible" : cudaGetErrorString(status)));
  }
  Check(status, "counting the GPUs");
  return count;
}

std::unique_ptr<Device> CreateCudaDevice(int ordinal) { return std::make_unique<CudaDevice>(ordinal); }

}  // namespace autocfg::cuda
