// The matrix products among the ops of a GPU: by cuBLASLt, with its epilogues where it has one for the shape, else its plain product followed by
// our own kernel. Which of the two a shape takes is decided once and told by MatmulChoices. One rank, one thread, one stream.
//
// NOT YET RUN: no GPU has confirmed this file.
#pragma once

#include <vector>

#include "kernels/cuda/kernel_ops.h"
#include "kernels/cuda/matmul.h"

namespace autocfg::cuda {

class LinearOps : public KernelOps {
 public:
  LinearOps() : matmul_(scratch()) {}

  void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate, Stream& stream) override;
  void MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c, Stream& stream) override;
  void MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual, const Tensor& c, Stream& stream) override;
  void MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& pre, const Tensor& y,
                        Stream& stream) override;
  void MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre, const Tensor& dpre,
                                Stream& stream) override;
  void MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias, Stream& stream) override;

  // Of each shape met: what computes it.
  std::vector<OpChoice> MatmulChoices() const { return matmul_.Choices(); }

 private:
  // The product with this epilogue in one call of the library. False, with nothing issued, where it has none for the shape.
  bool Fused(MatmulKey key, LtEpilogue epilogue, const MatmulOperands& operands, cudaStream_t stream);
  void Plain(MatmulKey key, const MatmulOperands& operands, cudaStream_t stream);

  LtMatmul matmul_;
};

}  // namespace autocfg::cuda
