#include "trainer/parallel/reduced_product.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "search/shapes/token_chunks.h"
#include "trainer/parallel/token_rows.h"

namespace autocfg::trainer {
namespace {

// Returns rows [begin, begin + count) of a matrix.
Tensor RowsOf(const Tensor& matrix, std::int64_t begin, std::int64_t count) {
  const std::int64_t width = matrix.shape[1];
  return matrix.Slice(begin * width, count * width).Reshape({count, width});
}

}  // namespace

void ReducedProduct(const Execution& run, std::initializer_list<Factors> products, Transpose transpose_w,
                    const Tensor& sums, const Tensor& rows) {
  const std::int64_t tokens = products.begin()->x.shape[0];
  const auto multiply = [&](std::int64_t first, std::int64_t count, const Tensor& to) {
    bool accumulate = false;
    for (const Factors& f : products) {
      const Tensor a = RowsOf(f.x, first, count);
      run.ops.Matmul(a, Transpose::kNo, f.w, transpose_w, to, std::exchange(accumulate, true), run.stream);
    }
  };
  if (run.groups.tensor == nullptr || run.tensor_chunks == 1) {
    multiply(0, tokens, sums);
    ReduceRows(run, sums, rows);
    return;
  }
  Communicator& group = *run.groups.tensor;
  // Where sums are scattered, a chunk has rows of every rank's own rows, piece by piece. The sums of a chunk
  // lie in a row in the buffer, so that each rank gets its piece of them.
  const std::int64_t pieces = run.splits_sequence ? group.size() : 1;
  const std::int64_t own = tokens / pieces;
  std::vector<std::int64_t> tickets;
  for (std::int64_t i = 0; i < run.tensor_chunks; ++i) {
    const RowRange chunk = ChunkOfRows(own, run.tensor_chunks, i);
    const std::int64_t count = chunk.Count();
    if (count == 0) continue;
    const Tensor chunk_sums = RowsOf(sums, pieces * chunk.begin, pieces * count);
    for (std::int64_t piece = 0; piece < pieces; ++piece)
      multiply(piece * own + chunk.begin, count, RowsOf(chunk_sums, piece * count, count));
    tickets.push_back(run.pending.Add(
        run.splits_sequence
            ? group.ReduceScatter(chunk_sums, RowsOf(rows, chunk.begin, count), ReduceOp::kSum, run.stream)
            : group.AllReduce(chunk_sums, ReduceOp::kSum, run.stream)));
  }
  run.Observed(Section::kCollective, [&] {
    for (const std::int64_t ticket : tickets) run.pending.Wait(ticket);
  });
}

}  // namespace autocfg::trainer
