// Operation graphs of cuDNN's backend interface (cudnn_backend.h of cuDNN 9): tensors and operations are
// described, cuDNN finds an engine that computes all of them at once, and a plan for it is executed on
// pointers. Shapes have four dimensions. Throws CudnnError. One thread.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/device.h"

namespace autocfg::cuda {

struct CudnnError : DeviceError {
  CudnnError(cudnnStatus_t code, const std::string& what) : DeviceError(what), status(code) {}
  cudnnStatus_t status;
};

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

using CudnnSizes = std::array<std::int64_t, 4>;

// Sizes, and how many elements neighbours along each dimension are apart.
struct CudnnLayout {
  CudnnSizes sizes{}, strides{};
  bool operator==(const CudnnLayout&) const = default;
};
CudnnLayout RowMajor(const CudnnSizes& sizes);
// The last two dimensions change places; no element moves.
CudnnLayout Transposed(const CudnnLayout& layout);

// From cuDNN's account of why no engine takes a graph: the first reason of each engine, each once, in one
// line.
std::string EngineReasons(std::string_view message);

class CudnnPlan {
 public:
  CudnnPlan(CudnnDescriptor plan, std::int64_t workspace_bytes)
      : plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // On the handle's stream. `data[i]` is the memory of tensor `ids[i]`: on the device, or on the host for
  // scalars.
  void Execute(cudnnHandle_t handle, const std::vector<std::int64_t>& ids, const std::vector<void*>& data,
               void* workspace) const;

 private:
  CudnnDescriptor plan_;
  std::int64_t workspace_bytes_;
};

class CudnnGraph {
 public:
  using Id = std::int64_t;

  // Memory and scalars are given by the caller when the plan executes, under the id that it chose (1 to 999).
  Id Memory(Id id, cudnnDataType_t type, const CudnnLayout& layout,
            cudnnBackendTensorReordering_t reordering = CUDNN_TENSOR_REORDERING_NONE);
  Id Scalar(Id id);  // float
  // What passes from one operation to another and is never stored.
  Id Virtual(cudnnDataType_t type, const CudnnLayout& layout);

  // y = x op b; b is absent for operations of one operand. The type is that of the computation.
  void Pointwise(cudnnPointwiseMode_t mode, Id x, std::optional<Id> b, Id y,
                 cudnnDataType_t type = CUDNN_DATA_FLOAT);
  // y = the index along `axis` of each element of x's shape.
  void Index(std::int64_t axis, Id x, Id y);
  // y = mask ? x : b.
  void Select(Id x, Id b, Id mask, Id y);
  void Matmul(Id a, Id b, Id c);
  // Over the dimensions in which y has size 1 (or fewer heads than x).
  void Reduce(cudnnReduceTensorOp_t op, Id x, Id y);
  void Reshape(Id x, Id y);

  // The first plan, in cuDNN's own order of preference, that can be made; none where cuDNN has no engine for
  // the graph, and then `why` is its reason, in one line. Requires all operations; call once.
  std::optional<CudnnPlan> FindPlan(const CudnnTarget& target, std::string* why);

 private:
  Id Add(Id id, cudnnDataType_t type, const CudnnLayout& layout, bool is_virtual, bool by_value,
         cudnnBackendTensorReordering_t reordering);
  const CudnnDescriptor& At(Id id) const;
  void SetTensor(CudnnDescriptor& operation, cudnnBackendAttributeName_t name, Id id) {
    operation.SetDescriptor(name, At(id));
  }
  CudnnDescriptor PointwiseOperation(cudnnPointwiseMode_t mode, cudnnDataType_t type,
                                     std::optional<std::int64_t> axis, Id x, Id y);

  std::vector<std::pair<Id, CudnnDescriptor>> tensors_;
  std::vector<CudnnDescriptor> operations_, parts_;  // parts: what operations refer to
  Id next_virtual_ = 1000;
};

}  // namespace autocfg::cuda
