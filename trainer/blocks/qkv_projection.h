// The projection of what attention reads to q, k and v (attn.c_attn), column-parallel. Where ranks of the
// tensor group share key-value heads (KvReplicas), k and v have a weight of their own, whose gradients those
// ranks sum: then there is a product for k and v, and one for q, and their columns are copied between the
// results and qkv. Holds views only; one rank, one thread.
#pragma once

#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"
#include "trainer/parallel/parallel_linear.h"

namespace autocfg::trainer {

class QkvProjection {
 public:
  // `layer` is a layer of the model that the rank holds. `layout` (resolved) must outlive the result.
  QkvProjection(const MemoryLayout& layout, std::int64_t layer);

  // The unit of its parameters.
  std::size_t unit() const { return whole_.weight.present() ? whole_.weight.unit : query_.weight.unit; }

  // Computes qkv[T,Q] from x[R,H].
  void Forward(const Execution& run, const Tensor& x, const Tensor& qkv) const;

  // Computes the parameter gradients (adds to them if `accumulate`), given dqkv[T,Q]. Returns dx[R,H], summed
  // over the tensor group: it is ReducedRows of the workspace's `whole`.
  Tensor Backward(const Execution& run, const Tensor& x, const Tensor& dqkv, Gradients gradients,
                  bool accumulate) const;

 private:
  bool shares_heads() const { return key_value_.weight.present(); }
  // The columns of q, and those of k and v, apart from qkv. The gradient of attention's output has the shape
  // of q and is used before and after.
  const Tensor& q() const { return workspace_.grad_attn; }
  const Tensor& kv() const { return workspace_.key_value; }

  const Workspace& workspace_;
  LinearParameters whole_;              // absent if ranks share heads
  LinearParameters key_value_, query_;  // absent otherwise
};

}  // namespace autocfg::trainer
