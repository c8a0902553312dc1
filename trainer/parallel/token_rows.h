// Sequence parallelism (Korthikanti et al. 2022): outside of the tensor-parallel ops, each rank of the tensor
// group holds R = T / tp consecutive tokens of a microbatch, its own rows. Before a tensor-parallel op the
// rows of all tokens are gathered; after one, its sums over the group are scattered. Without sequence
// parallelism every rank holds all rows (R = T), and sums are all-reduced.
//
// `whole` is the workspace's buffer for the rows of all tokens, [T, H]. One rank, one thread.
#pragma once

#include "kernels/tensor.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Returns the rows of all tokens, [T, H]: `rows`[R, H] gathered into `whole`, or `rows` itself if the rank
// holds all.
Tensor GatherRows(const Execution& run, const Tensor& rows, const Tensor& whole);

// Returns where a product writes the sums of all tokens whose reduced rows are `rows`[R, H]: `whole`, or
// `rows` itself if the rank keeps all.
const Tensor& SumsOf(const Execution& run, const Tensor& rows, const Tensor& whole);

// Sums `sums` = SumsOf(run, rows, whole) over the tensor group and leaves the own rows in `rows`.
void ReduceRows(const Execution& run, const Tensor& sums, const Tensor& rows);

// Returns a place for the own rows of sums in `whole`, [R, H], that needs no buffer of the caller: within
// `whole`, or the workspace's buffer for them if sums are scattered in chunks. Whoever reduces to it reads
// the rows before the next sums are computed.
Tensor ReducedRows(const Execution& run, const Tensor& whole);

}  // namespace autocfg::trainer
