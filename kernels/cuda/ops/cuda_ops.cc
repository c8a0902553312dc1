#include "kernels/cuda/ops/cuda_ops.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <tuple>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/cuda_stream.h"
#include "kernels/cuda/ops/attention_choice.h"
#include "kernels/cuda/ops/dispatch.h"
#include "kernels/cuda/ops/linear_ops.h"
#include "kernels/op_check.h"

namespace autocfg::cuda {
namespace {

class CudaOps final : public LinearOps {
 public:
  using LinearOps::LinearOps;

  void AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                        const Tensor& workspace, Stream& stream) override {
    const OpDesc op = op_check::AttentionForward(qkv, form, out, lse, workspace);
    const AttentionShape shape = ShapeOf(op, form);
    Dispatch(op, {&lse}, [&]<typename T>() {
      attention_.Forward(shape, qkv.As<const T>(), out.As<T>(), lse.As<float>(), scratch(),
                         CudaOps::HandleOf(stream));
      Remember<T>(op, shape);
    });
  }

  void AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                         const Tensor& dout, const Tensor& dqkv, const Tensor& workspace,
                         Stream& stream) override {
    const OpDesc op = op_check::AttentionBackward(qkv, form, out, lse, dout, dqkv, workspace);
    Dispatch(op, {&lse}, [&]<typename T>() {
      attention_.Backward(ShapeOf(op, form), qkv.As<const T>(), out.As<const T>(), lse.As<const float>(),
                          dout.As<const T>(), dqkv.As<T>(), scratch(), CudaOps::HandleOf(stream));
    });
  }

  void UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                               const Tensor& out, Stream& stream) override {
    const OpDesc op = op_check::UnfusedAttentionForward(qkv, form, probabilities, out);
    Dispatch(op, {}, [&]<typename T>() {
      cuda::UnfusedAttentionForward(ShapeOf(op, form), qkv.As<const T>(), probabilities.As<T>(), out.As<T>(),
                                    CudaOps::HandleOf(stream));
    });
  }

  void UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                const Tensor& dscores, Stream& stream) override {
    const OpDesc op = op_check::UnfusedAttentionBackward(qkv, form, probabilities, out, dout, dqkv, dscores);
    const AttentionShape shape = ShapeOf(op, form);
    Dispatch(op, {}, [&]<typename T>() {
      cuda::UnfusedAttentionBackward(shape, qkv.As<const T>(), probabilities.As<const T>(), out.As<const T>(),
                                     dout.As<const T>(), dqkv.As<T>(), dscores.As<T>(),
                                     scratch().Get<float>(AttentionDeltaElements(shape)),
                                     CudaOps::HandleOf(stream));
    });
  }

  std::vector<OpChoice> Choices() const {
    std::vector<OpChoice> choices = MatmulChoices();
    for (const auto& [op, implementation] : implementations_)
      choices.push_back({fmt::format("{}: {}", ToString(op), implementation), false});
    return choices;
  }

 private:
  cudaStream_t HandleOf(Stream& stream) override { return cuda::HandleOf(stream); }

  static AttentionShape ShapeOf(const OpDesc& op, const AttentionForm& form) {
    return {.batch = op.dims[0],
            .seq_len = op.dims[1],
            .heads = op.dims[2],
            .kv_heads = op.dims[4],
            .head_dim = op.dims[3],
            .scale = form.scale,
            .alibi_heads = form.alibi_heads,
            .first_head = form.first_head};
  }

  template <typename T>
  void Remember(const OpDesc& op, const AttentionShape& shape) {
    if (!implementations_.contains(op)) implementations_.emplace(op, attention_.ImplementationOf<T>(shape));
  }

  AttentionChoice attention_;
  std::map<OpDesc, std::string> implementations_;
};

}  // namespace

std::unique_ptr<Ops> CreateCudaOps() { return CreateCudaOpsWithWorkspace(LtMatmul::kWorkspaceBytes); }

std::unique_ptr<Ops> CreateCudaOpsWithWorkspace(std::int64_t bytes) {
  return std::make_unique<CudaOps>(bytes);
}

std::vector<OpChoice> ChoicesOf(const Ops& ops) {
  const auto* ours = dynamic_cast<const CudaOps*>(&ops);
  if (ours == nullptr) throw std::logic_error("ChoicesOf requires the ops of a CUDA device");
  return ours->Choices();
}

}  // namespace autocfg::cuda
