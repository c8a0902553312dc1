#include "kernels/cuda/cudnn/cudnn_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_attention_graph.h"
#include "kernels/cuda/device/cuda_error.h"

namespace autocfg::cuda {
namespace {

struct Plans {
  std::optional<CudnnPlan> forward = {}, backward = {};
  std::string refusal = {};
};

// The operands of one execution.
class Operands {
 public:
  void Add(AttentionTensor tensor, const void* data) {
    ids_.push_back(static_cast<std::int64_t>(tensor));
    data_.push_back(const_cast<void*>(data));  // the interface has no const form
  }
  // Adds q, k and v, or their gradients, within rows of qkv.
  void AddHeads(const AttentionShape& shape, AttentionTensor q, AttentionTensor k, AttentionTensor v,
                const __nv_bfloat16* qkv) {
    Add(q, qkv);
    Add(k, qkv + shape.FirstKey());
    Add(v, qkv + shape.FirstValue());
  }
  const std::vector<std::int64_t>& ids() const { return ids_; }
  const std::vector<void*>& data() const { return data_; }

 private:
  std::vector<std::int64_t> ids_;
  std::vector<void*> data_;
};

// Returns cuDNN's description of a plan, for logs.
std::string About(const CudnnPlan& plan) {
  std::string text;
  try {
    text = plan.Kernels();
  } catch (const CudnnError& e) {
    text = fmt::format("kernels unknown: {}", e.what());
  }
  if (text.empty()) text = "kernels unknown";
  if (!plan.passed_over().empty())
    text += fmt::format(" and not the preferred engine: {}", plan.passed_over());
  return text;
}

CudnnError WithAdvice(const CudnnError& error) {
  return {error.status,
          fmt::format("attention: {}; set AUTOCFG_ATTENTION=own to run without cuDNN", error.what())};
}

void Execute(const CudnnPlan& plan, cudnnHandle_t handle, cudaStream_t stream, const Operands& operands,
             void* workspace) {
  try {
    CheckCudnn(Cudnn().set_stream(handle, stream), "setting the stream");
    plan.Execute(handle, operands.ids(), operands.data(), workspace);
  } catch (const CudnnError& e) {
    throw WithAdvice(e);
  }
}

constexpr std::int64_t kAlignment = 256;  // alignment of a part of the scratch memory

// Bytes of scratch memory in the backward for the query sums; the plan's workspace follows them.
std::int64_t SumBytes(const AttentionShape& shape) {
  return (QuerySumBytes(shape) + kAlignment - 1) / kAlignment * kAlignment;
}
std::int64_t BackwardBytes(const AttentionShape& shape, const CudnnPlan& plan) {
  return SumBytes(shape) + plan.workspace_bytes();
}

constexpr float kLowest = std::numeric_limits<float>::lowest(), kOne = 1;

}  // namespace

struct CudnnAttention::State {
  ~State() {
    plans.clear();
    if (handle != nullptr) (void)Cudnn().destroy(handle);
  }

  cudnnHandle_t Handle() {
    if (handle == nullptr) {
      cudnnHandle_t made = nullptr;
      if (const cudnnStatus_t status = Cudnn().create(&made); status != CUDNN_STATUS_SUCCESS)
        ThrowCudnn(status, "cuDNN does not start");
      handle = made;
    }
    return handle;
  }

  const Plans& At(const AttentionShape& of) {
    AttentionShape shape = of;
    shape.scale = 0;  // plans take it as an operand
    const auto known = plans.find(shape);
    if (known != plans.end()) return known->second;
    Plans made{.refusal = std::string(ScoreRefusal(shape))};
    if (!made.refusal.empty()) return plans.emplace(shape, std::move(made)).first->second;
    try {
      const CudnnTarget target(Handle());
      made.refusal = CudnnAttentionFault(Cudnn().get_version(), shape);
      if (!made.refusal.empty()) return plans.emplace(shape, std::move(made)).first->second;
      std::string why;
      made.forward = FindAttentionForward(shape, target, &why);
      if (!made.forward) made.refusal = "forward: " + why;
      if (made.forward) made.backward = FindAttentionBackward(shape, target, &why);
      if (made.forward && !made.backward) made.refusal = "backward: " + why;
    } catch (const LibraryMissing& e) {
      made = {.refusal = e.what()};
    } catch (const CudnnError& e) {
      if (!IsRefusal(e.status)) throw WithAdvice(e);
      made = {.refusal = e.what()};
    }
    return plans.emplace(shape, std::move(made)).first->second;
  }

  // Returns the plans of a shape that is not refused.
  const Plans& Ready(const AttentionShape& shape) {
    const Plans& found = At(shape);
    if (!found.refusal.empty())
      throw std::logic_error("attention by cuDNN was called for a refused shape: " + found.refusal);
    return found;
  }

  cudnnHandle_t handle = nullptr;
  std::map<AttentionShape, Plans> plans;
};

CudnnAttention::CudnnAttention() : state_(std::make_unique<State>()) {}
CudnnAttention::~CudnnAttention() = default;

const std::string& CudnnAttention::Refusal(const AttentionShape& shape) { return state_->At(shape).refusal; }

void CudnnAttention::Forward(const AttentionShape& shape, const __nv_bfloat16* qkv, __nv_bfloat16* out,
                             float* lse, Scratch& scratch, cudaStream_t stream) {
  const Plans& plans = state_->Ready(shape);
  const CudnnPlan& plan = *plans.forward;
  const float scale = shape.Scale();
  Operands operands;
  operands.AddHeads(shape, AttentionTensor::kQuery, AttentionTensor::kKey, AttentionTensor::kValue, qkv);
  operands.Add(AttentionTensor::kOut, out);
  operands.Add(AttentionTensor::kLogSumExp, lse);
  operands.Add(AttentionTensor::kScale, &scale);
  operands.Add(AttentionTensor::kLowest, &kLowest);
  // Reserves the backward's memory too, because memory used later to time matrix products may leave no room.
  Execute(plan, state_->handle, stream, operands,
          scratch.Get(std::max(plan.workspace_bytes(), BackwardBytes(shape, *plans.backward))));
}

void CudnnAttention::Backward(const AttentionShape& shape, const __nv_bfloat16* qkv, const __nv_bfloat16* out,
                              const float* lse, const __nv_bfloat16* dout, __nv_bfloat16* dqkv,
                              Scratch& scratch, cudaStream_t stream) {
  const CudnnPlan& plan = *state_->Ready(shape).backward;
  const float scale = shape.Scale();
  const std::int64_t sum_bytes = SumBytes(shape);
  auto* sums = static_cast<unsigned char*>(scratch.Get(BackwardBytes(shape, plan)));
  if (!CudnnClearsQuerySums(Cudnn().get_version())) {
    Check(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(sum_bytes), stream),
          "clearing the sums of attention's gradient");
  }
  Operands operands;
  operands.AddHeads(shape, AttentionTensor::kQuery, AttentionTensor::kKey, AttentionTensor::kValue, qkv);
  operands.AddHeads(shape, AttentionTensor::kQueryGradient, AttentionTensor::kKeyGradient,
                    AttentionTensor::kValueGradient, dqkv);
  operands.Add(AttentionTensor::kOut, out);
  operands.Add(AttentionTensor::kLogSumExp, lse);
  operands.Add(AttentionTensor::kOutGradient, dout);
  operands.Add(AttentionTensor::kQuerySums, sums);
  operands.Add(AttentionTensor::kScale, &scale);
  operands.Add(AttentionTensor::kLowest, &kLowest);
  operands.Add(AttentionTensor::kOne, &kOne);
  Execute(plan, state_->handle, stream, operands, sums + sum_bytes);
}

std::string CudnnAttention::Description(const AttentionShape& shape) {
  const Plans& plans = state_->At(shape);
  if (!plans.refusal.empty()) return plans.refusal;
  return fmt::format("cuDNN {}: forward {}; backward {}", Version(), About(*plans.forward),
                     About(*plans.backward));
}

std::string CudnnAttention::Version() { return CudnnVersionText(Cudnn().get_version()); }

}  // namespace autocfg::cuda
