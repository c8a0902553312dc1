// Operation graphs of cuDNN's backend interface (cudnn_backend.h of cuDNN 9). Callers describe tensors and
// operations; cuDNN finds an engine that computes all of them at once. Shapes have four dimensions. Throws as
// cudnn_descriptor.h does. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_descriptor.h"
#include "kernels/cuda/cudnn/cudnn_plan.h"

namespace autocfg::cuda {

using CudnnSizes = std::array<std::int64_t, 4>;

// Sizes, and the stride in elements along each dimension.
struct CudnnLayout {
  CudnnSizes sizes{}, strides{};
  bool operator==(const CudnnLayout&) const = default;
};
CudnnLayout RowMajor(const CudnnSizes& sizes);
// Swaps the last two dimensions; no element moves.
CudnnLayout Transposed(const CudnnLayout& layout);

class CudnnGraph {
 public:
  using Id = std::int64_t;

  // Adds a memory or scalar tensor. The caller chooses its id (1 to 999) and passes its address under that id
  // when the plan executes.
  Id Memory(Id id, cudnnDataType_t type, const CudnnLayout& layout,
            cudnnBackendTensorReordering_t reordering = CUDNN_TENSOR_REORDERING_NONE);
  Id Scalar(Id id);  // float
  // Adds an intermediate result that is never stored.
  Id Virtual(cudnnDataType_t type, const CudnnLayout& layout);

  // y = x op b; b is absent for unary operations. `type` is the type of the computation.
  void Pointwise(cudnnPointwiseMode_t mode, Id x, std::optional<Id> b, Id y,
                 cudnnDataType_t type = CUDNN_DATA_FLOAT);
  // y = the index along `axis` of each element of x's shape.
  void Index(std::int64_t axis, Id x, Id y);
  // y = mask ? x : b.
  void Select(Id x, Id b, Id mask, Id y);
  void Matmul(Id a, Id b, Id c);
  // Reduces the dimensions in which y has size 1 (or fewer heads than x).
  void Reduce(cudnnReduceTensorOp_t op, Id x, Id y);
  void Reshape(Id x, Id y);

  // Calls FindCudnnPlan on the graph. Requires all operations; call once.
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
  std::vector<CudnnDescriptor> operations_, parts_;  // parts: descriptors that operations refer to
  Id next_virtual_ = 1000;
};

}  // namespace autocfg::cuda
