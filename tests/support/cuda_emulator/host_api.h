// The runtime API of the host, on emulated devices. See cuda_runtime.h for what the emulation proves, and
// streams.h for when the work on streams runs.
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>

#include "tests/support/cuda_emulator/emulator.h"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
// A call returns its own errors at once. These return the error of a kernel, which is sticky (faults.h).
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

// One device.
enum cudaDeviceAttr {
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};
inline constexpr int kEmulatedL2Bytes = 64 << 10;                            // not emulated: the size alone
inline constexpr std::size_t kEmulatedSharedBytes = std::size_t{163} << 10;  // limit per block on sm_80
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceSynchronize();
// describes 3 multiprocessors of sm_80
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
struct cudaDeviceProp {  // consistent with the attributes
  char name[256];
  int major, minor, multiProcessorCount, l2CacheSize;
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);

// Memory.
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
using cudaStream_t = struct EmulatedStream*;
cudaError_t cudaMalloc(void** data, std::size_t bytes);
template <typename T>
cudaError_t cudaMalloc(T** data, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(data), bytes);
}
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocHost(void** data, std::size_t bytes);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMemset(void* data, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);

// Streams and events.
using cudaEvent_t = struct EmulatedEvent*;
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
// measured on the host's clock
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

// Launches.
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
// always reports 2 blocks
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          std::size_t shared_bytes);

struct cudaLaunchAttribute;  // no attribute is emulated
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace autocfg::cuda_emulator {
// Returns what the device would return for this launch.
cudaError_t CheckLaunch(const cudaLaunchConfig_t& config, const void* kernel);
void Launch(cudaStream_t stream, std::function<void()> kernel);

// Counts calls for which a real device would block the host. Streams have no work left after they are
// synchronized or queried.
struct HostWaits {
  // asynchronous copies on a stream with work, from or to host memory that is not from cudaMallocHost
  int blocked_copies = 0;
  int synchronisations = 0;  // streams synchronized or queried
  int frees = 0;             // device memory frees; each waits for all work of the device
  int pinned = 0;            // cudaMallocHost, which may wait for the device too
  int events = 0;            // event waits
};
HostWaits Waits();

// If `pending`, work before an event is still incomplete at every query; initially off. Waiting for an event
// completes it.
void SetEventsPending(bool pending);

// Sets how much device memory is left; initially 1 GiB.
void SetFreeMemory(std::size_t bytes);
}  // namespace autocfg::cuda_emulator

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  namespace emulator = autocfg::cuda_emulator;
  if (const cudaError_t error = emulator::CheckLaunch(*config, reinterpret_cast<const void*>(kernel));
      error != cudaSuccess)
    return error;
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
  } call{kernel, {static_cast<Parameters>(std::forward<Arguments>(arguments))...}};
  const emulator::Geometry geometry{config->gridDim, config->blockDim, config->dynamicSmemBytes};
  emulator::Launch(config->stream, [geometry, call]() mutable {
    emulator::RunKernel(
        geometry,
        [](void* argument) {
          const auto* c = static_cast<const Call*>(argument);
          std::apply(c->kernel, c->arguments);  // each thread has its own copies
        },
        &call);
  });
  return cudaSuccess;
}
