// The matrix products among the ops of a GPU, by cuBLASLt. An epilogue of cuBLASLt is used if it exists for
// the shape and is faster than the plain product followed by our own kernel; on some GPUs the kernels with an
// epilogue are far slower. Each shape is timed once; Choices reports the result. One rank, one thread,
// one stream.
//
// NOT YET RUN: no GPU has confirmed this file.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/cuda/matmul/choice_cache.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/op_call.h"

namespace autocfg::cuda {

class LinearOps {
 public:
  // `workspace_bytes`: of the products, in `scratch`, which must outlive the object.
  LinearOps(Scratch& scratch, std::int64_t workspace_bytes);

  // Runs a matrix product with its epilogue.
  void Run(const OpCall& call, cudaStream_t stream);

  // Returns the implementation of each shape that has been run.
  std::vector<OpChoice> Choices() const;

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

  void Bias(const OpCall& call, cudaStream_t stream);
  void Residual(const OpCall& call, cudaStream_t stream);
  void Activate(const OpCall& call, cudaStream_t stream);
  void ActivationGradient(const OpCall& call, cudaStream_t stream);
  void BiasGradient(const OpCall& call, cudaStream_t stream);
  // Returns whether `fused` followed by `after_fused` replaces `plain` followed by `after_plain`. Takes the
  // faster if both can be timed, else the library's epilogue if it exists. Decides once for each key of
  // `fused`, by issuing both on the given operands, which must tolerate that.
  bool TakesFused(const Product& fused, const std::function<void()>& after_fused, const Product& plain,
                  const std::function<void()>& after_plain, cudaStream_t stream);
  // Runs one of the two; nothing follows the fused one.
  void Either(const Product& fused, const Product& plain, const std::function<void()>& after_plain,
              cudaStream_t stream);
  void Run(const Product& product, cudaStream_t stream) {
    matmul_.Run(product.key, product.operands, stream);
  }

  Scratch& scratch_;
  LtMatmul matmul_;
  ChoiceCache<MatmulKey, Fusion> fusions_;
};

}  // namespace autocfg::cuda
