#include "kernels/cuda/ops/linear_ops.h"

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>

#include "kernels/cuda/device/cuda_stream.h"
#include "kernels/cuda/kernels/elementwise.h"
#include "kernels/cuda/kernels/sum.h"
#include "kernels/cuda/ops/kernel_ops.h"

namespace autocfg::cuda {
namespace {

constexpr std::int64_t kBesideWorkspace = std::int64_t{1} << 20;  // column sums of 262144 columns

// Returns the operands and result type of the product in the descriptor.
MatmulKey KeyOf(const OpDesc& op, const Tensor& result) {
  if (op.dtype != DType::kF32 && op.dtype != DType::kBF16) {
    throw std::invalid_argument(
        fmt::format("{}: the cuda device runs fp32 and bf16, not {}", Name(op.kind), Name(op.dtype)));
  }
  if (result.dtype != op.dtype && result.dtype != DType::kF32) {
    throw std::invalid_argument(
        fmt::format("{}: the cuda device supports results of the operands' type or fp32, not {}",
                    Name(op.kind), Name(result.dtype)));
  }
  return {.m = op.dims[0],
          .n = op.dims[1],
          .k = op.dims[2],
          .transpose_a = op.transpose_a,
          .transpose_b = op.transpose_b,
          .accumulate = op.accumulate,
          .operands = op.dtype,
          .result = result.dtype};
}

}  // namespace

LinearOps::Product::Product(MatmulKey of, LtEpilogue epilogue, const MatmulOperands& on)
    : key(of), operands(on) {
  key.epilogue = epilogue;
  key.alignment = AlignmentOf(operands);
}

// Allocates the products' scratch memory at once. (Attention allocates what it needs beyond that in the first
// step.)
LinearOps::LinearOps(Scratch& scratch, std::int64_t workspace_bytes)
    : scratch_(scratch), matmul_(scratch, workspace_bytes) {
  scratch_.Get(workspace_bytes + kBesideWorkspace);
}

bool LinearOps::TakesFused(const Product& fused, const std::function<void()>& after_fused,
                           const Product& plain, const std::function<void()>& after_plain,
                           cudaStream_t stream) {
  const auto seconds_of = [&](const Product& product, const std::function<void()>& after) {
    const double seconds = matmul_.Seconds(product.key, product.operands, stream);
    if (seconds == 0 || !after) return seconds;
    after();  // loads kernels at first use
    return seconds + MeanSeconds(stream, LtMatmul::kTimedRuns, after);
  };
  const auto choose = [&] {
    Fusion fusion{.taken = matmul_.Supports(fused.key, fused.operands, stream)};
    if (!fusion.taken) return fusion;
    fusion.seconds = seconds_of(fused, after_fused);
    fusion.apart_seconds = seconds_of(plain, after_plain);
    if (fusion.seconds > 0 && fusion.apart_seconds > 0) fusion.taken = fusion.seconds <= fusion.apart_seconds;
    return fusion;
  };
  return fusions_.Find(fused.key, choose).taken;
}

void LinearOps::Either(const Product& fused, const Product& plain, const std::function<void()>& after_plain,
                       cudaStream_t stream) {
  if (TakesFused(fused, nullptr, plain, after_plain, stream)) return Run(fused, stream);
  Run(plain, stream);
  after_plain();
}

void LinearOps::Run(const OpCall& call, cudaStream_t stream) {
  switch (call.desc.epilogue) {
    case Epilogue::kNone: {
      const Tensor &a = call[0], &b = call[1], &c = call[2];
      return Run({KeyOf(call.desc, c), LtEpilogue::kNone, {.a = a.data, .b = b.data, .d = c.data}}, stream);
    }
    case Epilogue::kBias: return Bias(call, stream);
    case Epilogue::kActivation: return Activate(call, stream);
    case Epilogue::kActivationGradient: return ActivationGradient(call, stream);
    case Epilogue::kBiasGradient: return BiasGradient(call, stream);
    case Epilogue::kResidual: return Residual(call, stream);
  }
}

void LinearOps::Bias(const OpCall& call, cudaStream_t stream) {
  const Tensor &a = call[0], &b = call[1], &bias = call[2], &c = call[3];
  const MatmulKey key = KeyOf(call.desc, c);
  const auto add_bias = [&] {
    Dispatch(call, [&]<typename T>() { cuda::BiasAdd(key.m, key.n, c.As<T>(), bias.As<const T>(), stream); });
  };
  Either({key, LtEpilogue::kBias, {.a = a.data, .b = b.data, .d = c.data, .bias = bias.data}},
         {key, LtEpilogue::kNone, {.a = a.data, .b = b.data, .d = c.data}}, add_bias, stream);
}

void LinearOps::Residual(const OpCall& call, cudaStream_t stream) {
  const Tensor &a = call[0], &b = call[1], &bias = call[2], &residual = call[3], &c = call[4];
  const MatmulKey key = KeyOf(call.desc, c);
  // Uses the library's c beside its d: the residual is read when the product is stored.
  MatmulKey adding = key;
  adding.accumulate = true;
  const MatmulOperands operands{.a = a.data, .b = b.data, .d = c.data, .c = residual.data, .bias = bias.data};
  if (!call.desc.bias) return Run({adding, LtEpilogue::kNone, operands}, stream);
  const auto add_both = [&] {
    Dispatch(call, [&]<typename T>() {
      cuda::BiasResidual(key.m, key.n, c.As<T>(), bias.As<const T>(), residual.As<const T>(), stream);
    });
  };
  Either({adding, LtEpilogue::kBias, operands},
         {key, LtEpilogue::kNone, {.a = a.data, .b = b.data, .d = c.data}}, add_both, stream);
}

void LinearOps::Activate(const OpCall& call, cudaStream_t stream) {
  const Tensor &a = call[0], &b = call[1], &bias = call[2], &pre = call[3], &y = call[4];
  const MatmulKey key = KeyOf(call.desc, y);
  const Product plain{key, LtEpilogue::kNone, {.a = a.data, .b = b.data, .d = pre.data}};
  const auto activate = [&] {
    Dispatch(call, [&]<typename T>() {
      cuda::ActivationForward(call.desc.activation, key.m, key.n, pre.As<T>(), bias.As<const T>(), y.As<T>(),
                              stream);
    });
  };
  // The library's GELU is the tanh form. Its ReLU stores a mask instead of the input, which the backward
  // needs.
  if (call.desc.activation != Activation::kGelu) {
    Run(plain, stream);
    return activate();
  }
  Either({key,
          bias.IsPresent() ? LtEpilogue::kGeluBias : LtEpilogue::kGelu,
          {.a = a.data, .b = b.data, .d = y.data, .bias = bias.data, .aux = pre.data}},
         plain, activate, stream);
}

void LinearOps::ActivationGradient(const OpCall& call, cudaStream_t stream) {
  const Tensor &dy = call[0], &b = call[1], &pre = call[2], &dpre = call[3];
  const MatmulKey key = KeyOf(call.desc, dpre);
  const Product plain{key, LtEpilogue::kNone, {.a = dy.data, .b = b.data, .d = dpre.data}};
  const auto turn_back = [&] {
    Dispatch(call, [&]<typename T>() {
      cuda::ActivationBackward(call.desc.activation, key.m, key.n, pre.As<const T>(), dpre.As<const T>(),
                               dpre.As<T>(), stream);
    });
  };
  if (call.desc.activation != Activation::kGelu) {
    Run(plain, stream);
    return turn_back();
  }
  Either({key, LtEpilogue::kGeluGradient, {.a = dy.data, .b = b.data, .d = dpre.data, .aux = pre.data}},
         plain, turn_back, stream);
}

void LinearOps::BiasGradient(const OpCall& call, cudaStream_t stream) {
  const Tensor &x = call[0], &dy = call[1], &dw = call[2], &dbias = call[3];
  const MatmulKey key = KeyOf(call.desc, dw);
  const Product plain{key, LtEpilogue::kNone, {.a = x.data, .b = dy.data, .d = dw.data}};
  if (call.desc.gradients) {  // the library sums biases in fp32
    Run(plain, stream);
    return cuda::ColumnSum(dy.shape[0], key.n, dy.As<const __nv_bfloat16>(), dbias.As<__nv_bfloat16>(),
                           call.desc.accumulate, scratch_, stream);
  }
  // The library overwrites the bias gradient. One that is added to is written behind the workspace first and
  // added then. While the two ways are timed, their sums go there too. The scratch memory of ColumnSum, a few
  // KiB per resident block, lies within the workspace's part.
  const std::int64_t at = matmul_.workspace_bytes();
  char* base = static_cast<char*>(scratch_.Get(at + key.n * static_cast<std::int64_t>(sizeof(float))));
  float* sums = call.desc.accumulate ? reinterpret_cast<float*>(base + at) : dbias.As<float>();
  float* to = sums;
  const std::function<void()> add_sums = [&] {
    AddPartials<float>(1, key.n, sums, {to}, /*add=*/true, stream);
  };
  const auto sum_columns = [&] {
    Dispatch(call, [&]<typename T>() {
      cuda::ColumnSum(dy.shape[0], key.n, dy.As<const T>(), to, call.desc.accumulate, scratch_, stream);
    });
  };
  const Product fused{
      key, LtEpilogue::kBiasGradient, {.a = x.data, .b = dy.data, .d = dw.data, .bias = sums}};
  const bool takes_fused =
      TakesFused(fused, call.desc.accumulate ? add_sums : nullptr, plain, sum_columns, stream);
  to = dbias.As<float>();
  if (!takes_fused) {
    Run(plain, stream);
    return sum_columns();
  }
  Run(fused, stream);
  if (call.desc.accumulate) add_sums();
}

std::vector<OpChoice> LinearOps::Choices() const {
  std::vector<OpChoice> choices = matmul_.Choices();
  for (const auto& [key, fusion] : fusions_.choices()) {
    if (fusion.taken || fusion.seconds == 0 || fusion.apart_seconds == 0) continue;
    choices.push_back({fmt::format("{}: separate product and kernel, {:.1f} us instead of {:.1f} us",
                                   ToString(key), fusion.apart_seconds * 1e6, fusion.seconds * 1e6)});
  }
  return choices;
}

}  // namespace autocfg::cuda
