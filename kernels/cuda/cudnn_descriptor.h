// Descriptors of cuDNN's backend interface (cudnn_backend.h of cuDNN 9), its errors, and the GPU that plans
// are made for. Throws CudnnError, DeviceOutOfMemory, LibraryMissing where cuDNN is not there. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/cuda/cudnn_api.h"
#include "kernels/device.h"

namespace autocfg::cuda {

// A failure of cuDNN's, but for want of memory.
struct CudnnError : DeviceError {
  CudnnError(cudnnStatus_t code, const std::string& what) : DeviceError(what), status(code) {}
  cudnnStatus_t status;
};

// What cuDNN says of its last failure: a line for each step, which may be much.
std::string LastCudnnMessage();

// Whether it is to be answered by our own kernels, when it comes of asking for a plan. These are
// - NOT_SUPPORTED with its kinds: of a shape, a type, a GPU, a driver, a part of cuDNN that is not there;
// - NOT_INITIALIZED with its kinds: cuDNN does not start on this machine, or its parts are missing or of
//   different versions;
// - BAD_PARAM with its kinds: the graphs are always the same and right, so this version of cuDNN reads one of
//   their attributes otherwise.
// Internal errors and failed executions are none: what runs into them is to end, and not to run slower.
bool IsRefusal(cudnnStatus_t status);

// Throws, in one line that opens with `text`: DeviceOutOfMemory for what is known as want of memory (cuDNN's
// own statuses for it, CUDA's words in its message, a failure without a reason where IsShortOfMemory), else
// CudnnError.
[[noreturn]] void ThrowCudnn(cudnnStatus_t status, std::string_view text);

// The same, "cuDNN, WHAT: ...", for all but success.
void CheckCudnn(cudnnStatus_t status, std::string_view what);

// A backend descriptor. Attributes are set, then it is finalized. Every failure names `what` was being made.
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

// The GPU that plans are made for: that of a handle, or one that is only described (cuDNN: "deviceless
// ahead-of-time compilation"), for which plans are found but not executed.
class CudnnTarget {
 public:
  explicit CudnnTarget(cudnnHandle_t handle) : handle_(handle) {}
  // A device property descriptor in cuDNN's JSON.
  explicit CudnnTarget(std::string_view properties);

  // Each sets the attribute where the target is of its kind, else leaves it alone.
  void SetHandleOn(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t handle) const;
  void SetPropertiesOn(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t properties) const;

 private:
  cudnnHandle_t handle_ = nullptr;
  std::optional<CudnnDescriptor> properties_;
};

}  // namespace autocfg::cuda
