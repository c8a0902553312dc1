// The ops of a list by what their time depends on, and how long the list takes when the sums of chunks
// overlap the products of the next ones (docs/engine.md, "Chunks"). Plain values; pure functions,
// thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "search/cost/timing/lanes.h"
#include "search/ops/op_desc.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// A product that is cut into chunks, in their order.
struct ChunkedProduct {
  std::vector<double> products_s;  // of each chunk; the first includes products right before it
  std::vector<OpDesc> reductions;  // of each chunk, over the tensor group

  bool operator==(const ChunkedProduct&) const = default;
};

struct OpSum {
  double compute_s = 0;                 // of all ops without communication
  double ops = 0;                       // how many those are
  std::vector<OpDesc> messages;         // that nothing hides
  std::vector<ChunkedProduct> chunked;  // whose products are part of compute_s
};

using SecondsOfOp = std::function<double(const OpDesc&)>;

// `seconds`: of an op without communication.
OpSum SumOps(const ParallelPlan& plan, const std::vector<OpDesc>& ops, const SecondsOfOp& seconds);

// Returns what a product's reductions add to the seconds of its chunks: each runs once its chunk is computed
// and the one before it has ended. `seconds`: of a reduction. `contention`: the share of its time that it
// takes from the chunk beside it.
OverlapTime TimeOfChunks(const ChunkedProduct& chunked, const SecondsOfOp& seconds, double contention = 0);

}  // namespace autocfg
