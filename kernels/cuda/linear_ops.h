// The matrix products among the ops of a GPU: by cuBLASLt, with its epilogues where it has one for the shape
// and that is faster than its plain product followed by our own kernel: on some GPUs the kernels with an
// epilogue are the slower ones by far. Which of the two a shape takes is timed once and told by
// MatmulChoices. One rank, one thread, one stream.
//
// NOT YET RUN: no GPU has confirmed this file.
#pragma once

#include <functional>
#include <vector>

#include "kernels/cuda/choice_cache.h"
#include "kernels/cuda/kernel_ops.h"
#include "kernels/cuda/matmul.h"

namespace autocfg::cuda {

class LinearOps : public KernelOps {
 public:
  explicit LinearOps(std::int64_t workspace_bytes);  // of the products

  void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate,
              Stream& stream) override;
  void MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
                  Stream& stream) override;
  void MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c, Stream& stream) override;
  void MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y, Stream& stream) override;
  void MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre, Stream& stream) override;
  void MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          Stream& stream) override;

  // Of each shape met: what computes it.
  std::vector<OpChoice> MatmulChoices() const;

 private:
  struct Product {
    Product(MatmulKey of, LtEpilogue epilogue, const MatmulOperands& on);

    MatmulKey key;
    MatmulOperands operands;
  };
  struct Fusion {
    bool taken = false;
    double seconds = 0, apart_seconds = 0;  // 0: not timed
  };

  // Whether `fused`, and `after_fused` behind it, are to be taken in place of `plain` and `after_plain`: the
  // faster where they can be timed, else the library's epilogue where it has one. Decided once for each key
  // of `fused`, by issuing both on the operands given, which must bear that.
  bool TakesFused(const Product& fused, const std::function<void()>& after_fused, const Product& plain,
                  const std::function<void()>& after_plain, cudaStream_t stream);
  // The one or the other, where nothing follows the fused one.
  void Either(const Product& fused, const Product& plain, const std::function<void()>& after_plain,
              cudaStream_t stream);
  void Run(const Product& product, cudaStream_t stream) {
    matmul_.Run(product.key, product.operands, stream);
  }

  LtMatmul matmul_;
  ChoiceCache<MatmulKey, Fusion> fusions_;
};

}  // namespace autocfg::cuda
