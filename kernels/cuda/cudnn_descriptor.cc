#include "kernels/cuda/cudnn_descriptor.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace autocfg::cuda {

std::string LastCudnnMessage() {
  std::vector<char> message(std::size_t{1} << 16, '\0');
  cudnnGetLastErrorString(message.data(), message.size());
  message.back() = '\0';
  return message.data();
}

void CheckCudnn(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string message = LastCudnnMessage();
  throw CudnnError(status, fmt::format("cuDNN, {}: {}: {}", what, cudnnGetErrorString(status),
                                       message.substr(0, message.find('\n'))));
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string what)
    : what_(std::move(what)) {
  CheckCudnn(cudnnBackendCreateDescriptor(type, &descriptor_), what_);
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) (void)cudnnBackendDestroyDescriptor(descriptor_);
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
  const cudnnStatus_t status = cudnnBackendSetAttribute(descriptor_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS)
    CheckCudnn(status, fmt::format("{}, attribute {}", what_, static_cast<int>(name)));
}

void CudnnDescriptor::SetDescriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  SetOne(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.descriptor_);
}

void CudnnDescriptor::Finalize() { CheckCudnn(cudnnBackendFinalize(descriptor_), what_); }

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
