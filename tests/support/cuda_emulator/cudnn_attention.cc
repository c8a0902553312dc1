// cuDNN on the emulator: always absent, so that our own kernels compute attention.
#include "kernels/cuda/cudnn/cudnn_attention.h"

#include <stdexcept>

namespace autocfg::cuda {

struct CudnnAttention::State {
  std::string refusal = "the emulator has no cuDNN", of_scores = {};
};

CudnnAttention::CudnnAttention() : state_(std::make_unique<State>()) {}
CudnnAttention::~CudnnAttention() = default;

const std::string& CudnnAttention::Refusal(const AttentionShape& shape) {
  state_->of_scores = ScoreRefusal(shape);
  return state_->of_scores.empty() ? state_->refusal : state_->of_scores;
}

void CudnnAttention::Forward(const AttentionShape&, const __nv_bfloat16*, __nv_bfloat16*, float*, Scratch&,
                             cudaStream_t) {
  throw std::logic_error(state_->refusal);
}

void CudnnAttention::Backward(const AttentionShape&, const __nv_bfloat16*, const __nv_bfloat16*, const float*,
                              const __nv_bfloat16*, __nv_bfloat16*, Scratch&, cudaStream_t) {
  throw std::logic_error(state_->refusal);
}

std::string CudnnAttention::Description(const AttentionShape&) { return state_->refusal; }

std::string CudnnAttention::Version() { return "none"; }

}  // namespace autocfg::cuda
