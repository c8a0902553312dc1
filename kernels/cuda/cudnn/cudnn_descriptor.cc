#include "kernels/cuda/cudnn/cudnn_descriptor.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/cuda/device/cuda_error.h"

namespace autocfg::cuda {
namespace {

constexpr int kNotInitialized = 1000;  // the category, which has no status number of its own

// cuDNN loads kernels and allocates memory through CUDA's runtime and driver. It passes on their messages
// under its own statuses.
bool IsWantOfMemory(cudnnStatus_t status, std::string_view message) {
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)  // ALLOC_FAILED in older versions
    return true;
  const int category = CUDNN_STATUS_CATEGORY(status);
  if (category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM) return false;
  for (const std::string_view words :
       {"out of memory", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"}) {
    if (message.find(words) != std::string_view::npos) return true;
  }
  return IsShortOfMemory();
}

}  // namespace

std::string LastCudnnMessage() {
  std::vector<char> message(std::size_t{1} << 16, '\0');
  Cudnn().get_last_error_string(message.data(), message.size());
  message.back() = '\0';
  return message.data();
}

bool IsRefusal(cudnnStatus_t status) {
  const int category = CUDNN_STATUS_CATEGORY(status);
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == kNotInitialized ||
         category == CUDNN_STATUS_BAD_PARAM;
}

void ThrowCudnn(cudnnStatus_t status, std::string_view text) {
  const std::string message = LastCudnnMessage();
  const std::string line = fmt::format("{}: {}: {}", text, Cudnn().get_error_string(status),
                                       message.substr(0, message.find('\n')));
  if (IsWantOfMemory(status, message)) throw DeviceOutOfMemory(-1, FreeBytes(), line);
  throw CudnnError(status, line);
}

void CheckCudnn(cudnnStatus_t status, std::string_view what) {
  if (status != CUDNN_STATUS_SUCCESS) ThrowCudnn(status, fmt::format("cuDNN, {}", what));
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string what)
    : what_(std::move(what)) {
  CheckCudnn(Cudnn().create_descriptor(type, &descriptor_), what_);
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) (void)Cudnn().destroy_descriptor(descriptor_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)), what_(std::move(other.what_)) {}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(what_, other.what_);
  return *this;
}

void CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  const cudnnStatus_t status = Cudnn().set_attribute(descriptor_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS)
    CheckCudnn(status, fmt::format("{}, attribute {}", what_, static_cast<int>(name)));
}

void CudnnDescriptor::SetDescriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  SetOne(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.descriptor_);
}

void CudnnDescriptor::Finalize() { CheckCudnn(Cudnn().finalize(descriptor_), what_); }

CudnnTarget::CudnnTarget(std::string_view properties) {
  properties_.emplace(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a description of a GPU");
  properties_->Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   static_cast<std::int64_t>(properties.size()), properties.data());
  properties_->Finalize();
}

void CudnnTarget::SetHandleOn(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t handle) const {
  if (handle_ != nullptr) descriptor.SetOne(handle, CUDNN_TYPE_HANDLE, handle_);
}

void CudnnTarget::SetPropertiesOn(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t properties) const {
  if (properties_) descriptor.SetDescriptor(properties, *properties_);
}

}  // namespace autocfg::cuda
