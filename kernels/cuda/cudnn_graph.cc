#include "kernels/cuda/cudnn_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace autocfg::cuda {
namespace {

// What cuDNN says of its last failure, a line for each step, which may be much.
std::string LastMessage() {
  std::vector<char> message(std::size_t{1} << 16, '\0');
  cudnnGetLastErrorString(message.data(), message.size());
  message.back() = '\0';
  return message.data();
}

void CheckCudnn(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string message = LastMessage();
  throw CudnnError(status, fmt::format("cuDNN, {}: {}: {}", what, cudnnGetErrorString(status),
                                       message.substr(0, message.find('\n'))));
}

}  // namespace

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

CudnnLayout RowMajor(const CudnnSizes& sizes) {
  return {sizes, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
}

CudnnLayout Transposed(const CudnnLayout& layout) {
  CudnnLayout result = layout;
  std::swap(result.sizes[2], result.sizes[3]);
  std::swap(result.strides[2], result.strides[3]);
  return result;
}

void CudnnPlan::Execute(cudnnHandle_t handle, const std::vector<std::int64_t>& ids,
                        const std::vector<void*>& data, void* workspace) const {
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "the operands of a plan");
  const auto count = static_cast<std::int64_t>(ids.size());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data());
  pack.SetOne(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.Finalize();
  CheckCudnn(cudnnBackendExecute(handle, plan_.get(), pack.get()), "executing a plan");
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

std::string EngineReasons(std::string_view message) {
  constexpr std::string_view kCode = "CUDNN_STATUS_NOT_SUPPORTED_", kReason = "; Reason: ";
  std::vector<std::string> reasons;
  bool first_of_engine = false;
  while (!message.empty()) {
    const std::string_view line = message.substr(0, message.find('\n'));
    message.remove_prefix(std::min(message.size(), line.size() + 1));
    const std::size_t at = line.find(kReason);
    if (at == std::string_view::npos) {
      first_of_engine = line.find("engineId") != std::string_view::npos;
      continue;
    }
    if (!std::exchange(first_of_engine, false)) continue;
    const std::size_t code = line.find(kCode);
    std::string reason(line.substr(at + kReason.size()));
    if (code < at) reason += fmt::format(" ({})", line.substr(code + kCode.size(), at - code - kCode.size()));
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
      reasons.push_back(std::move(reason));
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

namespace {

bool IsRefusal(cudnnStatus_t status) { return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED; }

}  // namespace

std::optional<CudnnPlan> CudnnGraph::FindPlan(const CudnnTarget& target, std::string* why) {
  std::vector<cudnnBackendDescriptor_t> raw_operations;
  for (const CudnnDescriptor& operation : operations_) raw_operations.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "an operation graph");
  target.SetHandleOn(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(raw_operations.size()), raw_operations.data());
  graph.Finalize();

  why->clear();
  // Of the engines that cuDNN would rather take; the others are for other graphs and say so.
  const auto set_reason = [&](const std::string& reason) {
    if (why->empty()) *why = reason;
  };
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "the choice of an engine");
      heuristic.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
      heuristic.SetOne(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
      target.SetPropertiesOn(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
      heuristic.Finalize();
      std::int64_t count = 0;
      CheckCudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                 "counting engines");
      std::vector<CudnnDescriptor> configs;
      std::vector<cudnnBackendDescriptor_t> raw;
      for (std::int64_t i = 0; i < count; ++i) {
        raw.push_back(
            configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine's configuration").get());
      }
      CheckCudnn(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
                 "asking for engines");
      if (count == 0) set_reason("no engine of cuDNN takes it: " + EngineReasons(LastMessage()));
      for (std::int64_t i = 0; i < count; ++i) {
        const CudnnDescriptor& config = configs[static_cast<std::size_t>(i)];
        try {
          CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
          target.SetHandleOn(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
          target.SetPropertiesOn(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
          plan.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
          plan.Finalize();
          std::int64_t bytes = 0;
          CheckCudnn(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                              CUDNN_TYPE_INT64, 1, &count, &bytes),
                     "asking for a plan's workspace");
          return CudnnPlan(std::move(plan), bytes);
        } catch (const CudnnError& e) {
          if (!IsRefusal(e.status)) throw;
          set_reason(e.what());
        }
      }
    } catch (const CudnnError& e) {
      if (!IsRefusal(e.status)) throw;
      set_reason(e.what());
    }
  }
  return std::nullopt;
}

}  // namespace autocfg::cuda
