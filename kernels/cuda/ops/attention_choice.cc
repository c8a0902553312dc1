#include "kernels/cuda/ops/attention_choice.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "kernels/cuda/attention/attention.h"
#include "kernels/device.h"

namespace autocfg::cuda {
namespace {

template <typename T>
constexpr bool kBf16 = std::is_same_v<T, __nv_bfloat16>;

}  // namespace

AttentionForced ParseAttentionForced(const char* value) {
  const std::string_view word = value == nullptr ? "" : value;
  if (word.empty()) return AttentionForced::kNone;
  if (word == "own") return AttentionForced::kOwn;
  if (word == "cudnn") return AttentionForced::kCudnn;
  throw std::invalid_argument(
      fmt::format("AUTOCFG_ATTENTION is \"{}\"; it may be own or cudnn, or unset", word));
}

AttentionChoice::AttentionChoice()
    : AttentionChoice(ParseAttentionForced(std::getenv("AUTOCFG_ATTENTION"))) {}

bool AttentionChoice::ByCudnn(const AttentionShape& shape) {
  CheckAttention(shape);
  if (forced_ == AttentionForced::kOwn) return false;
  const std::string& refusal = cudnn_.Refusal(shape);
  if (forced_ == AttentionForced::kCudnn && !refusal.empty()) {
    throw DeviceError(fmt::format(
        "AUTOCFG_ATTENTION=cudnn, but cuDNN refuses this attention: {}; use AUTOCFG_ATTENTION=own", refusal));
  }
  return refusal.empty();
}

template <typename T>
void AttentionChoice::Forward(const AttentionShape& shape, const T* qkv, T* out, float* lse, Scratch& scratch,
                              cudaStream_t stream) {
  if constexpr (kBf16<T>) {
    if (ByCudnn(shape)) return cudnn_.Forward(shape, qkv, out, lse, scratch, stream);
  }
  AttentionForward(shape, qkv, out, lse, stream);
}

template <typename T>
void AttentionChoice::Backward(const AttentionShape& shape, const T* qkv, const T* out, const float* lse,
                               const T* dout, T* dqkv, Scratch& scratch, cudaStream_t stream) {
  if constexpr (kBf16<T>) {
    if (ByCudnn(shape)) return cudnn_.Backward(shape, qkv, out, lse, dout, dqkv, scratch, stream);
  }
  CheckAttention(shape);
  AttentionBackward(shape, qkv, out, lse, dout, dqkv, scratch.Get<float>(AttentionDeltaElements(shape)),
                    stream);
}

template <typename T>
std::string AttentionChoice::ImplementationOf(const AttentionShape& shape) {
  if constexpr (!kBf16<T>) return "own kernels, plain arithmetic";
  if (ByCudnn(shape)) return cudnn_.Description(shape);
  const std::string own =
      OnTensorCores(shape) ? "own kernels, tensor cores" : "own kernels, plain arithmetic";
  if (forced_ == AttentionForced::kOwn) return own + " (AUTOCFG_ATTENTION=own)";
  return fmt::format("{} (cuDNN refuses: {})", own, cudnn_.Refusal(shape));
}

template void AttentionChoice::Forward(const AttentionShape&, const float*, float*, float*, Scratch&,
                                       cudaStream_t);
template void AttentionChoice::Forward(const AttentionShape&, const __nv_bfloat16*, __nv_bfloat16*, float*,
                                       Scratch&, cudaStream_t);
template void AttentionChoice::Backward(const AttentionShape&, const float*, const float*, const float*,
                                        const float*, float*, Scratch&, cudaStream_t);
template void AttentionChoice::Backward(const AttentionShape&, const __nv_bfloat16*, const __nv_bfloat16*,
                                        const float*, const __nv_bfloat16*, __nv_bfloat16*, Scratch&,
                                        cudaStream_t);
template std::string AttentionChoice::ImplementationOf<float>(const AttentionShape&);
template std::string AttentionChoice::ImplementationOf<__nv_bfloat16>(const AttentionShape&);

}  // namespace autocfg::cuda
