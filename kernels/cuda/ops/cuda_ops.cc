#include "kernels/cuda/ops/cuda_ops.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/cuda_stream.h"
#include "kernels/cuda/ops/attention_choice.h"
#include "kernels/cuda/ops/kernel_ops.h"
#include "kernels/cuda/ops/linear_ops.h"

namespace autocfg::cuda {
namespace {

class CudaOps final : public Ops {
 public:
  explicit CudaOps(std::int64_t workspace_bytes) : linear_(scratch_, workspace_bytes) {}

  void Run(const OpCall& call, Stream& stream) override {
    const cudaStream_t handle = HandleOf(stream);
    switch (call.desc.kind) {
      case OpKind::kMatmul: return linear_.Run(call, handle);
      case OpKind::kAttentionForward: return AttentionForward(call, handle);
      case OpKind::kAttentionBackward: return AttentionBackward(call, handle);
      case OpKind::kUnfusedAttentionForward: return UnfusedAttentionForward(call, handle);
      case OpKind::kUnfusedAttentionBackward: return UnfusedAttentionBackward(call, handle);
      default: return RunKernelOp(call, scratch_, handle);  // does not compile if it lacks a kind
    }
  }
  void ReleaseSpare() override { scratch_.Release(); }

  std::vector<OpChoice> Choices() const {
    std::vector<OpChoice> choices = linear_.Choices();
    for (const auto& [op, implementation] : implementations_)
      choices.push_back({fmt::format("{}: {}", ToString(op), implementation), false});
    return choices;
  }

 private:
  void AttentionForward(const OpCall& call, cudaStream_t stream) {
    const Tensor &qkv = call[0], &out = call[1], &lse = call[2];
    const AttentionShape shape = ShapeOf(call);
    Dispatch(call, [&]<typename T>() {
      attention_.Forward(shape, qkv.As<const T>(), out.As<T>(), lse.As<float>(), scratch_, stream);
      Remember<T>(call.desc, shape);
    });
  }

  void AttentionBackward(const OpCall& call, cudaStream_t stream) {
    const Tensor &qkv = call[0], &out = call[1], &lse = call[2], &dout = call[3], &dqkv = call[4];
    Dispatch(call, [&]<typename T>() {
      attention_.Backward(ShapeOf(call), qkv.As<const T>(), out.As<const T>(), lse.As<const float>(),
                          dout.As<const T>(), dqkv.As<T>(), scratch_, stream);
    });
  }

  static void UnfusedAttentionForward(const OpCall& call, cudaStream_t stream) {
    const Tensor &qkv = call[0], &probabilities = call[1], &out = call[2];
    Dispatch(call, [&]<typename T>() {
      cuda::UnfusedAttentionForward(ShapeOf(call), qkv.As<const T>(), probabilities.As<T>(), out.As<T>(),
                                    stream);
    });
  }

  void UnfusedAttentionBackward(const OpCall& call, cudaStream_t stream) {
    const Tensor &qkv = call[0], &probabilities = call[1], &out = call[2], &dout = call[3], &dqkv = call[4],
                 &dscores = call[5];
    const AttentionShape shape = ShapeOf(call);
    Dispatch(call, [&]<typename T>() {
      cuda::UnfusedAttentionBackward(shape, qkv.As<const T>(), probabilities.As<const T>(), out.As<const T>(),
                                     dout.As<const T>(), dqkv.As<T>(), dscores.As<T>(),
                                     scratch_.Get<float>(AttentionDeltaElements(shape)), stream);
    });
  }

  static AttentionShape ShapeOf(const OpCall& call) {
    const auto [batch, seq_len, heads, head_dim, kv_heads] = call.desc.dims;
    return {.batch = batch,
            .seq_len = seq_len,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_dim = head_dim,
            .scale = call.args.form.scale,
            .alibi_heads = call.args.form.alibi_heads,
            .first_head = call.args.form.first_head,
            .softcap = call.args.form.softcap,
            .window = call.args.form.window};
  }

  template <typename T>
  void Remember(const OpDesc& op, const AttentionShape& shape) {
    if (!implementations_.contains(op)) implementations_.emplace(op, attention_.ImplementationOf<T>(shape));
  }

  Scratch scratch_;
  LinearOps linear_;
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
