// Descriptors of cuDNN's backend interface (cudnn_backend.h of cuDNN 9), its errors, and the target GPU of
// plans. Throws CudnnError, DeviceOutOfMemory, and LibraryMissing if cuDNN is absent. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/cuda/cudnn/cudnn_api.h"
#include "kernels/device.h"

namespace autocfg::cuda {

// A failure of cuDNN other than lack of memory.
struct CudnnError : DeviceError {
  CudnnError(cudnnStatus_t code, const std::string& what) : DeviceError(what), status(code) {}
  cudnnStatus_t status;
};

// Returns cuDNN's description of its last failure: one line per step, possibly many.
std::string LastCudnnMessage();

// Returns whether this status, when a plan is requested, means that our own kernels are used instead:
// - NOT_SUPPORTED and its subcodes: an unsupported shape, type, GPU, driver, or an absent part of cuDNN;
// - NOT_INITIALIZED and its subcodes: cuDNN does not start on this machine, or its parts are missing or have
//   different versions;
// - BAD_PARAM and its subcodes: the graphs are always the same and correct, so this version of cuDNN
//   interprets one of their attributes differently.
// Internal errors and failed executions are not refusals: they end the run rather than slow it down.
bool IsRefusal(cudnnStatus_t status);

// Throws an error with one line that starts with `text`. Throws DeviceOutOfMemory if memory is known to be
// short (cuDNN's own statuses for it, CUDA's text in its message, or an unexplained failure if
// IsShortOfMemory), else CudnnError.
[[noreturn]] void ThrowCudnn(cudnnStatus_t status, std::string_view text);

// Throws "cuDNN, WHAT: ..." as ThrowCudnn does, unless `status` is success.
void CheckCudnn(cudnnStatus_t status, std::string_view what);

// A backend descriptor. Set its attributes, then finalize it. Every error names `what`, the object being
// built.
class CudnnDescriptor {
 public:
  CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string what);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  template <typename T>
  void SetOne(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    Set(name, type, 1, &value);
  }
  void SetDescriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void Finalize();

  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  std::string what_;
};

// The GPU that plans are built for: that of a handle, or a described one (cuDNN: "deviceless ahead-of-time
// compilation"). Plans for a described GPU can be found but not executed.
class CudnnTarget {
 public:
  explicit CudnnTarget(cudnnHandle_t handle) : handle_(handle) {}
  // Takes a device property descriptor in cuDNN's JSON.
  explicit CudnnTarget(std::string_view properties);

  // Each sets the attribute if the target is of its kind, else does nothing.
  void SetHandleOn(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t handle) const;
  void SetPropertiesOn(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t properties) const;

 private:
  cudnnHandle_t handle_ = nullptr;
  std::optional<CudnnDescriptor> properties_;
};

}  // namespace autocfg::cuda
