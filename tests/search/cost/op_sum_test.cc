#include "search/cost/op_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "search/blocks/layer.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

double ExposedSeconds(const ChunkedProduct& chunked, const SecondsOfOp& seconds, double contention = 0) {
  return TimeOfChunks(chunked, seconds, contention).seconds;
}

// A product takes a second for each row, a sum one for each of its elements.
double SizeOfOp(const OpDesc& op) { return static_cast<double>(op.dims[0]); }

ChunkedProduct Chunks(const std::vector<double>& products_s, const std::vector<std::int64_t>& sums_s) {
  ChunkedProduct chunked{products_s, {}};
  for (const std::int64_t seconds : sums_s)
    chunked.reductions.push_back({.kind = OpKind::kAllReduceSum, .dims = {seconds}});
  return chunked;
}

// A flow shop of two machines with equal jobs takes p + (c - 1) max(p, q) + q.
TEST(ExposedSeconds, IsWhatTheProductsDoNotHide) {
  EXPECT_EQ(ExposedSeconds(Chunks({5}, {3}), SizeOfOp), 3) << "one chunk hides nothing";
  EXPECT_EQ(ExposedSeconds(Chunks({5, 5, 5, 5}, {3, 3, 3, 3}), SizeOfOp), 3) << "all but the last";
  EXPECT_EQ(ExposedSeconds(Chunks({2, 2, 2, 2}, {3, 3, 3, 3}), SizeOfOp), 2 + 4 * 3 - 8);
  EXPECT_EQ(ExposedSeconds(Chunks({1, 9}, {4, 2}), SizeOfOp), 2);
  EXPECT_EQ(ExposedSeconds(Chunks({9, 1}, {4, 2}), SizeOfOp), 5) << "the second sum waits for the first";
  EXPECT_EQ(ExposedSeconds(Chunks({}, {}), SizeOfOp), 0);
  // Three of four sums run beside products, and take half of their time from them.
  EXPECT_EQ(ExposedSeconds(Chunks({5, 5, 5, 5}, {3, 3, 3, 3}), SizeOfOp, 0.5), 3 * 1.5 + 3);
  EXPECT_EQ(ExposedSeconds(Chunks({5, 5, 5, 5}, {3, 3, 3, 3}), SizeOfOp, 1), 4 * 3)
      << "as if none were hidden";
  EXPECT_EQ(ExposedSeconds(Chunks({5}, {3}), SizeOfOp, 0.5), 3);
}

TEST(TimeOfChunks, WaitsForWhatNothingRunsBeside) {
  EXPECT_EQ(TimeOfChunks(Chunks({5, 5, 5, 5}, {3, 3, 3, 3}), SizeOfOp, 0.5).waited_s, 3);
  EXPECT_EQ(TimeOfChunks(Chunks({9, 1}, {4, 2}), SizeOfOp).waited_s, 5);
}

TEST(SumOps, FindsTheChunksOfALayer) {
  const ModelSpec model = test::SmallGpt(2, 16, 4, 61);
  const Workload workload = test::Fp32(2, 8);
  for (const bool sequence : {false, true}) {
    const ParallelPlan whole{{.tp = 2}, {.sequence_parallel = sequence}};
    ParallelPlan cut = whole;
    cut.tp_overlap = 4;
    const OpSum one = SumOps(whole, LayerForwardOps({model, workload, whole}), SizeOfOp);
    const OpSum four = SumOps(cut, LayerForwardOps({model, workload, cut}), SizeOfOp);
    EXPECT_TRUE(one.chunked.empty());
    ASSERT_EQ(four.chunked.size(), 2u) << "the two projections into the residual stream";
    EXPECT_EQ(four.messages.size() + 2, one.messages.size()) << "gathers stay";
    // By elements, the sums of all chunks are those of the whole, and so are the rows of the products.
    EXPECT_EQ(four.compute_s, one.compute_s);
    for (const ChunkedProduct& chunked : four.chunked) {
      ASSERT_EQ(chunked.reductions.size(), 4u);
      double elements = 0;
      for (const OpDesc& op : chunked.reductions) elements += SizeOfOp(op);
      EXPECT_EQ(elements, 8 * 16);
      const bool ffn = &chunked == &four.chunked.back();  // whose first projection comes right before
      EXPECT_EQ(chunked.products_s, (std::vector<double>{ffn ? 10.0 : 2.0, 2, 2, 2}));
    }
  }
}

}  // namespace
}  // namespace autocfg
