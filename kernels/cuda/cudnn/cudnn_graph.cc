#include "kernels/cuda/cudnn/cudnn_graph.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace autocfg::cuda {

CudnnLayout RowMajor(const CudnnSizes& sizes) {
  return {sizes, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
}

CudnnLayout Transposed(const CudnnLayout& layout) {
  CudnnLayout result = layout;
  std::swap(result.sizes[2], result.sizes[3]);
  std::swap(result.strides[2], result.strides[3]);
  return result;
}

CudnnGraph::Id CudnnGraph::Add(Id id, cudnnDataType_t type, const CudnnLayout& layout, bool is_virtual,
                               bool by_value, cudnnBackendTensorReordering_t reordering) {
  constexpr std::int64_t kAlignment = 16;
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, fmt::format("tensor {}", id));
  tensor.SetOne(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.SetOne(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.SetOne(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, layout.sizes.data());
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, layout.strides.data());
  tensor.SetOne(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  tensor.SetOne(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  tensor.SetOne(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, reordering);
  tensor.Finalize();
  tensors_.emplace_back(id, std::move(tensor));
  return id;
}

CudnnGraph::Id CudnnGraph::Memory(Id id, cudnnDataType_t type, const CudnnLayout& layout,
                                  cudnnBackendTensorReordering_t reordering) {
  return Add(id, type, layout, false, false, reordering);
}

CudnnGraph::Id CudnnGraph::Scalar(Id id) {
  return Add(id, CUDNN_DATA_FLOAT, RowMajor({1, 1, 1, 1}), false, true, CUDNN_TENSOR_REORDERING_NONE);
}

CudnnGraph::Id CudnnGraph::Virtual(cudnnDataType_t type, const CudnnLayout& layout) {
  return Add(next_virtual_++, type, layout, true, false, CUDNN_TENSOR_REORDERING_NONE);
}

const CudnnDescriptor& CudnnGraph::At(Id id) const {
  for (const auto& [known, tensor] : tensors_) {
    if (known == id) return tensor;
  }
  throw std::logic_error(fmt::format("tensor {} is not in the graph", id));
}

CudnnDescriptor CudnnGraph::PointwiseOperation(cudnnPointwiseMode_t mode, cudnnDataType_t type,
                                               std::optional<std::int64_t> axis, Id x, Id y) {
  const std::string what = fmt::format("pointwise operation {}", static_cast<int>(mode));
  CudnnDescriptor& kind = parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
  kind.SetOne(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  kind.SetOne(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type);
  if (axis) kind.SetOne(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, *axis);
  kind.Finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  SetTensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  SetTensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  return operation;
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, Id x, std::optional<Id> b, Id y, cudnnDataType_t type) {
  CudnnDescriptor operation = PointwiseOperation(mode, type, std::nullopt, x, y);
  if (b) SetTensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  operation.Finalize();
  operations_.push_back(std::move(operation));
}

void CudnnGraph::Index(std::int64_t axis, Id x, Id y) {
  CudnnDescriptor operation = PointwiseOperation(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis, x, y);
  operation.Finalize();
  operations_.push_back(std::move(operation));
}

void CudnnGraph::Select(Id x, Id b, Id mask, Id y) {
  CudnnDescriptor operation =
      PointwiseOperation(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, std::nullopt, x, y);
  SetTensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  SetTensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask);
  operation.Finalize();
  operations_.push_back(std::move(operation));
}

void CudnnGraph::Matmul(Id a, Id b, Id c) {
  CudnnDescriptor& kind = parts_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a matrix product");
  kind.SetOne(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.Finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "a matrix product");
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  SetTensor(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  SetTensor(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  SetTensor(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  operation.Finalize();
  operations_.push_back(std::move(operation));
}

void CudnnGraph::Reduce(cudnnReduceTensorOp_t op, Id x, Id y) {
  CudnnDescriptor& kind = parts_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a reduction");
  kind.SetOne(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  kind.SetOne(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.Finalize();
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "a reduction");
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  SetTensor(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  SetTensor(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  operation.Finalize();
  operations_.push_back(std::move(operation));
}

void CudnnGraph::Reshape(Id x, Id y) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "a reshape");
  SetTensor(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  SetTensor(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  operation.Finalize();
  operations_.push_back(std::move(operation));
}

std::optional<CudnnPlan> CudnnGraph::FindPlan(const CudnnTarget& target, std::string* why) {
  std::vector<cudnnBackendDescriptor_t> raw_operations;
  for (const CudnnDescriptor& operation : operations_) raw_operations.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "an operation graph");
  target.SetHandleOn(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(raw_operations.size()), raw_operations.data());
  graph.Finalize();
  return FindCudnnPlan(graph, target, why);
}

}  // namespace autocfg::cuda
