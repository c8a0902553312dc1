#include "tests/support/cuda_emulator/host_api.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulator/device_memory.h"
#include "tests/support/cuda_emulator/launches/faults.h"
#include "tests/support/cuda_emulator/launches/launches.h"
#include "tests/support/cuda_emulator/streams.h"

namespace emulator = autocfg::cuda_emulator;

namespace {

constexpr std::size_t kSharedWithoutAsking = std::size_t{48} << 10;

std::map<void*, std::size_t>& Sizes() {
  static auto* sizes = new std::map<void*, std::size_t>();
  return *sizes;
}
std::map<const void*, std::size_t>& AllowedShared() {
  static auto* allowed = new std::map<const void*, std::size_t>();
  return *allowed;
}

// Sizes of pinned memory blocks, by start address.
std::map<const char*, std::size_t>& Pinned() {
  static auto* pinned = new std::map<const char*, std::size_t>();
  return *pinned;
}
bool IsPinned(const void* data) {
  const char* at = static_cast<const char*>(data);
  const auto after = Pinned().upper_bound(at);
  return after != Pinned().begin() &&
         static_cast<std::size_t>(at - std::prev(after)->first) < std::prev(after)->second;
}

autocfg::cuda_emulator::HostWaits waits;
bool events_pending = false;

}  // namespace

cudaError_t cudaGetLastError() { return emulator::StickyError(); }
cudaError_t cudaPeekAtLastError() { return emulator::StickyError(); }
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceSynchronize() {
  emulator::FinishAll();
  return emulator::StickyError();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(kEmulatedSharedBytes);
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = 3; return cudaSuccess;
    case cudaDevAttrL2CacheSize: *value = kEmulatedL2Bytes; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = 8; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  *properties = {.name = "emulated GPU",
                 .major = 8,
                 .minor = 0,
                 .multiProcessorCount = 3,
                 .l2CacheSize = kEmulatedL2Bytes};
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = nullptr;
  if (bytes == 0 || emulator::StickyError() != cudaSuccess) return emulator::StickyError();
  if (!autocfg::cuda_emulator::TakeMemory(bytes)) return cudaErrorMemoryAllocation;
  *data = autocfg::cuda_emulator::AllocateDeviceMemory(bytes);
  if (*data == nullptr) {
    autocfg::cuda_emulator::GiveMemory(bytes);
    return cudaErrorMemoryAllocation;
  }
  Sizes()[*data] = bytes;
  return emulator::StickyError();
}
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return emulator::StickyError();
  ++waits.frees;
  emulator::FinishAll();
  autocfg::cuda_emulator::FreeDeviceMemory(data);
  autocfg::cuda_emulator::GiveMemory(Sizes().at(data));
  Sizes().erase(data);
  return emulator::StickyError();
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  *data = nullptr;
  if (emulator::StickyError() != cudaSuccess) return emulator::StickyError();
  ++waits.pinned;
  *data = std::malloc(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  Pinned()[static_cast<const char*>(*data)] = bytes;
  return emulator::StickyError();
}
cudaError_t cudaFreeHost(void* data) {
  Pinned().erase(static_cast<const char*>(data));
  std::free(data);
  return emulator::StickyError();
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const autocfg::cuda_emulator::MemoryState memory = autocfg::cuda_emulator::MemoryOfDevice();
  *free = memory.free;
  *total = memory.total;
  return emulator::StickyError();
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  std::memset(data, value, bytes);
  return emulator::StickyError();
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  emulator::Issue(stream, [=] { std::memset(data, value, bytes); });
  return emulator::StickyError();
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memmove(to, from, bytes);
  return emulator::StickyError();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const void* host = kind == cudaMemcpyHostToDevice ? from : kind == cudaMemcpyDeviceToHost ? to : nullptr;
  const bool pageable = host != nullptr && !IsPinned(host);
  if (stream != nullptr && pageable && emulator::HasWork(stream)) ++waits.blocked_copies;
  if (pageable && kind == cudaMemcpyHostToDevice) {  // the driver takes a copy before it returns
    const auto* begin = static_cast<const char*>(from);
    emulator::Issue(stream, [to, staged = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
    return emulator::StickyError();
  }
  emulator::Issue(stream, [=] { std::memmove(to, from, bytes); });
  if (pageable) emulator::Finish(stream);  // the driver returns once the copy is made
  return emulator::StickyError();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = emulator::CreateStream();
  return emulator::StickyError();
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  emulator::DestroyStream(stream);
  return emulator::StickyError();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++waits.synchronisations;
  emulator::Finish(stream);
  return emulator::StickyError();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (!emulator::Query(stream)) return cudaErrorNotReady;
  ++waits.synchronisations;
  return emulator::StickyError();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  emulator::Await(stream, event);
  return emulator::StickyError();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = emulator::CreateEvent();
  return emulator::StickyError();
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  emulator::DestroyEvent(event);
  return emulator::StickyError();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  emulator::Record(event, stream);
  return emulator::StickyError();
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  *milliseconds =
      std::chrono::duration<float, std::milli>(emulator::TimeOf(end) - emulator::TimeOf(start)).count();
  return emulator::StickyError();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return events_pending || !emulator::Query(event) ? cudaErrorNotReady : emulator::StickyError();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++waits.events;
  emulator::Finish(event);
  return emulator::StickyError();
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
  *blocks = 2;
  return emulator::StickyError();
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return emulator::StickyError();
  if (value < 0 || static_cast<std::size_t>(value) > kEmulatedSharedBytes) return cudaErrorInvalidValue;
  AllowedShared()[kernel] = static_cast<std::size_t>(value);
  return emulator::StickyError();
}

namespace autocfg::cuda_emulator {

cudaError_t CheckLaunch(const cudaLaunchConfig_t& config, const void* kernel) {
  if (StickyError() != cudaSuccess) return StickyError();
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const auto threads = std::size_t{block.x} * block.y * block.z;
  if (threads < 1 || block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024)
    return cudaErrorInvalidConfiguration;
  if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  const auto allowed = AllowedShared().find(kernel);
  const std::size_t most = allowed == AllowedShared().end() ? kSharedWithoutAsking
                                                            : std::max(allowed->second, kSharedWithoutAsking);
  if (config.dynamicSmemBytes > most || config.numAttrs != 0) return cudaErrorInvalidValue;
  RecordLaunch(kernel, threads);
  return cudaSuccess;
}

void Launch(cudaStream_t stream, std::function<void()> kernel) {
  Issue(stream, WithFault(std::move(kernel)));
}

HostWaits Waits() { return waits; }

void SetEventsPending(bool pending) { events_pending = pending; }

}  // namespace autocfg::cuda_emulator
