// The bytes of the tensors of a rank, aligned as its arena aligns them. Pure, thread-safe.
#pragma once

#include <cstdint>

#include "search/ops/dtype.h"
#include "search/ops/memory_sizes.h"
#include "search/plan/run_view.h"
#include "search/shapes/local_dims.h"

namespace autocfg {

class TensorBytes {
 public:
  explicit TensorBytes(const RunView& run)
      : dims(LocalDimsOf(run)),
        compute_(SizeOf(run.workload.precision.compute)),
        statistics_(SizeOf(run.workload.precision.statistics)),
        has_mean_(HasMean(run.model.norm)) {}

  // A tensor of so many elements, in the type of activations or in that of statistics.
  std::int64_t Of(std::int64_t elements) const { return AlignedBytes(elements * compute_); }
  std::int64_t Statistics(std::int64_t elements) const { return AlignedBytes(elements * statistics_); }
  // [T, width], [R, H], and what a norm of the latter keeps.
  std::int64_t Rows(std::int64_t width) const { return Of(dims.tokens * width); }
  std::int64_t Hidden() const { return Of(dims.rows * dims.hidden); }
  std::int64_t Norm() const { return (has_mean_ ? 2 : 1) * Statistics(dims.rows); }
  // [B, N, S, S]: the scores of unfused attention, and a byte for each, which says what is dropped.
  std::int64_t Scores() const { return Of(ScoreCount()); }
  std::int64_t ScoreMask() const { return AlignedBytes(ScoreCount()); }
  // [R, H], a byte each, which says what is dropped.
  std::int64_t HiddenMask() const { return AlignedBytes(dims.rows * dims.hidden); }

  const LocalDims dims;

 private:
  std::int64_t ScoreCount() const { return dims.micro_batch * dims.heads * dims.seq_len * dims.seq_len; }

  std::int64_t compute_, statistics_;
  bool has_mean_;
};

// The bytes of a block of a layer: what a slot keeps of it for each microbatch; of parts that are computed
// again, one set for all layers; and what its ops need beside.
struct BlockBytes {
  std::int64_t stored = 0, recomputed = 0, workspace = 0;

  BlockBytes& operator+=(const BlockBytes& other) {
    stored += other.stored;
    recomputed += other.recomputed;
    workspace += other.workspace;
    return *this;
  }
  // Adds a tensor of the slot, or of the parts that are computed again.
  void Keep(std::int64_t bytes, bool computed_again = false) {
    (computed_again ? recomputed : stored) += bytes;
  }
};

}  // namespace autocfg
