// Cross-entropy of whole rows and over a split vocabulary, for every Ops that computes. Loss and gradient
// follow the definition in ops_reference.h. Extends OpsSuite; include in the same test file and instantiate
// OpsCrossEntropySuite.
#pragma once

#include <array>
#include <limits>

#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"

namespace autocfg {

class OpsCrossEntropySuite : public OpsSuite {
 protected:
  // Tests rows of realistic size, one per target, in which a thread of a GPU meets new maxima.
  void ExpectRealRows(std::int64_t vocab, std::int64_t valid, const std::vector<std::int32_t>& targets,
                      bool shards, double softcap = 0);
};

struct CrossEntropyResult {
  double loss;
  Values dlogits;  // [rows, valid]
};

// Returns a [rows, width] shard of logits[rows, valid] from column `start` on. The padding is NaN and must
// have no effect.
inline Tensor PutShard(OnDevice& dev, std::int64_t rows, std::int64_t valid, std::int64_t start,
                       std::int64_t width, const Values& logits) {
  Values part(static_cast<std::size_t>(rows * width), std::nan(""));
  const std::int64_t count = std::clamp<std::int64_t>(valid - start, 0, width);
  for (std::int64_t t = 0; t < rows; ++t) {
    std::copy_n(logits.begin() + t * valid + start, count, part.begin() + t * width);
  }
  return dev.Put({rows, width}, part);
}

// Copies the shard's gradient to its place in dlogits[rows, valid]; the gradient of the padding is 0.
inline void TakeShard(OnDevice& dev, const Tensor& shard, std::int64_t valid, std::int64_t start,
                      Values& dlogits) {
  const std::int64_t rows = shard.shape[0], width = shard.shape[1];
  const std::int64_t count = std::clamp<std::int64_t>(valid - start, 0, width);
  const Values gradient = dev.Get(shard);
  for (std::int64_t t = 0; t < rows; ++t) {
    std::copy_n(gradient.begin() + t * width, count, dlogits.begin() + t * valid + start);
    for (std::int64_t i = count; i < width; ++i) {
      EXPECT_EQ(gradient[t * width + i], 0.0) << "padding column " << i << " of the shard from " << start;
    }
  }
}

inline CrossEntropyResult RunWholeCrossEntropy(OnDevice& dev, std::int64_t rows, std::int64_t vocab,
                                               std::int64_t valid, const Values& logits,
                                               const std::vector<std::int32_t>& targets, double scale,
                                               double softcap = 0) {
  const Tensor logits_ = PutShard(dev, rows, valid, 0, vocab, logits);
  const Tensor loss = dev.Put({1}, {100}, DType::kF64);
  dev.ops->CrossEntropy(logits_, {valid, softcap}, dev.PutTokens(targets), scale, loss, *dev.stream);
  CrossEntropyResult result{dev.Get(loss)[0] - 100, reference::Zeros(rows * valid)};  // must be added to
  TakeShard(dev, logits_, valid, 0, result.dlogits);
  return result;
}

// The same over `shards` simulated tensor ranks, reduced as the communicator would.
inline CrossEntropyResult RunShardedCrossEntropy(OnDevice& dev, std::int64_t rows, std::int64_t shards,
                                                 std::int64_t width, std::int64_t valid, const Values& logits,
                                                 const std::vector<std::int32_t>& targets, double scale,
                                                 double softcap = 0) {
  const auto valid_of = [&](std::int64_t r) { return std::clamp<std::int64_t>(valid - r * width, 0, width); };
  const Tensor targets_ = dev.PutTokens(targets);
  std::vector<Tensor> local, max, sums;
  for (std::int64_t r = 0; r < shards; ++r) {
    local.push_back(PutShard(dev, rows, valid, r * width, width, logits));
    max.push_back(dev.NewWide({rows}));
    sums.push_back(dev.NewWide({2, rows}));
    dev.ops->CrossEntropyForward(local.back(), {valid_of(r), softcap}, targets_, r * width, max.back(),
                                 sums.back(), *dev.stream);
  }
  Values reduced_max = dev.Get(max[0]), reduced_sums(static_cast<std::size_t>(2 * rows), 0.0);
  for (const Tensor& m : max) {
    const Values values = dev.Get(m);
    for (std::size_t t = 0; t < values.size(); ++t) reduced_max[t] = std::max(reduced_max[t], values[t]);
  }
  for (std::int64_t r = 0; r < shards; ++r) {
    dev.Set(max[r], reduced_max);
    dev.ops->CrossEntropyRescale(max[r], sums[r], *dev.stream);
    const Values values = dev.Get(sums[r]);
    for (std::size_t i = 0; i < values.size(); ++i) reduced_sums[i] += values[i];
  }
  CrossEntropyResult result{0, reference::Zeros(rows * valid)};
  for (std::int64_t r = 0; r < shards; ++r) {
    dev.Set(sums[r], reduced_sums);
    const Tensor loss = dev.Put({1}, {100}, DType::kF64);
    dev.ops->CrossEntropyLoss(max[r], sums[r], loss, *dev.stream);
    result.loss = dev.Get(loss)[0] - 100;  // must be added to
    dev.ops->CrossEntropyBackward(local[r], {valid_of(r), softcap}, sums[r], targets_, r * width, scale,
                                  *dev.stream);
    TakeShard(dev, local[r], valid, r * width, result.dlogits);
  }
  return result;
}

TEST_P(OpsCrossEntropySuite, WholeAndSplitVocabulary) {
  const std::int64_t rows = 6, valid = 33;
  const std::vector<std::int32_t> targets{0, 32, 11, 12, 23, 24};
  struct Case {
    double magnitude, softcap;
  };
  for (const auto [magnitude, softcap] :
       {Case{1, 0}, Case{100, 0}, Case{1, 0.5}, Case{12, 30}, Case{100, 8}}) {
    const Values logits = Random(rows * valid, 1, -magnitude, magnitude);
    const reference::CrossEntropy want =
        reference::SoftmaxCrossEntropy(rows, valid, valid, logits, targets, 0.25, softcap);
    const std::string cap = " with soft cap " + std::to_string(softcap);
    const auto expect = [&](const CrossEntropyResult& got, const std::string& of) {
      EXPECT_NEAR(got.loss, want.loss, GetParam().tolerance * 4 * want.loss) << of;
      ExpectNear(got.dlogits, want.dlogits, GetParam().tolerance, "dlogits of " + of,
                 NarrowRounding(dev_.type));
    };
    for (const std::int64_t vocab : {33, 48}) {
      expect(RunWholeCrossEntropy(dev_, rows, vocab, valid, logits, targets, 0.25, softcap),
             "whole rows" + cap);
    }
    // Shards of 12: the fourth holds only padding.
    for (const auto& [shards, width] :
         std::array<std::array<std::int64_t, 2>, 4>{{{1, 33}, {1, 48}, {2, 20}, {4, 12}}}) {
      expect(RunShardedCrossEntropy(dev_, rows, shards, width, valid, logits, targets, 0.25, softcap),
             std::to_string(shards) + " shards" + cap);
    }
  }
}

// All columns except the target's have small gradients, so they are compared with each other.
inline void OpsCrossEntropySuite::ExpectRealRows(std::int64_t vocab, std::int64_t valid,
                                                 const std::vector<std::int32_t>& targets, bool shards,
                                                 double softcap) {
  // A capped logit is rounded to its type once more, which the exponential function makes a relative error.
  const double epsilon = dev_.type == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                                  : std::numeric_limits<float>::epsilon();
  const double tolerance = GetParam().tolerance + softcap * epsilon;
  const auto rows = static_cast<std::int64_t>(targets.size());
  const Values logits = Random(rows * valid, 1, -12, 12);
  const reference::CrossEntropy want =
      reference::SoftmaxCrossEntropy(rows, valid, valid, logits, targets, 1, softcap);
  // Returns the columns that are not targets, divided by the largest of them.
  const auto others = [&](Values dlogits) {
    for (std::int64_t t = 0; t < rows; ++t) dlogits[t * valid + targets[t]] = 0;
    double largest = 0;
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t i = 0; i < valid; ++i) {
        if (i != targets[t]) largest = std::max(largest, want.dlogits[t * valid + i]);
      }
    }
    for (double& v : dlogits) v /= largest;
    return dlogits;
  };
  const double rounding = NarrowRounding(dev_.type);
  std::vector<CrossEntropyResult> results = {
      RunWholeCrossEntropy(dev_, rows, vocab, valid, logits, targets, 1, softcap)};
  if (shards)
    results.push_back(RunShardedCrossEntropy(dev_, rows, 1, vocab, valid, logits, targets, 1, softcap));
  for (const CrossEntropyResult& got : results) {
    EXPECT_NEAR(got.loss, want.loss, tolerance * want.loss);
    ExpectNear(got.dlogits, want.dlogits, tolerance, "dlogits", rounding);
    ExpectNear(others(got.dlogits), others(want.dlogits), tolerance, "others", rounding);
  }
}

// GPT-2's, padded.
TEST_P(OpsCrossEntropySuite, RealisticVocabulary) { ExpectRealRows(50304, 50257, {0, 50256, 777}, true); }

// Llama 3's vocabulary: whole rows of over 128 KiB even in bf16, for which a GPU uses more threads. Shards
// are not tested, because a GPU handles them alike at any width.
TEST_P(OpsCrossEntropySuite, LargeVocabulary) { ExpectRealRows(128256, 128256, {128000}, false); }

// The same, of rows that a GPU cannot read several elements at a time.
TEST_P(OpsCrossEntropySuite, LargeOddVocabulary) { ExpectRealRows(65543, 65543, {65500}, false); }

// Both with Gemma 2's soft cap.
TEST_P(OpsCrossEntropySuite, LargeCappedVocabulary) {
  ExpectRealRows(128256, 128256, {128000}, false, 30);
  ExpectRealRows(65543, 65543, {65500}, false, 30);
}

TEST_P(OpsCrossEntropySuite, PaddingOnlyShardsAddNothing) {
  const Tensor logits = dev_.New({2, 8}), max = dev_.NewWide({2}), sums = dev_.NewWide({2, 2});
  const Tensor targets = dev_.PutTokens({30, 40});
  ops_.CrossEntropyForward(logits, {0}, targets, 0, max, sums, stream_);
  const double lowest = GetParam().type == DType::kF64 ? std::numeric_limits<double>::lowest()
                                                       : std::numeric_limits<float>::lowest();
  EXPECT_EQ(dev_.Get(max), Values(2, lowest));
  EXPECT_EQ(dev_.Get(sums), (Values{lowest, lowest, 0, 0}));
  // With peers that have columns, it adds nothing.
  const Tensor reduced = dev_.PutWide({2}, {-3, 5}), share = dev_.PutWide({2, 2}, {lowest, lowest, 0, 0});
  ops_.CrossEntropyRescale(reduced, share, stream_);
  EXPECT_EQ(dev_.Get(share), Values(4, 0.0));
  // If no peer has columns, there is no loss and no gradient.
  ops_.CrossEntropyRescale(max, sums, stream_);
  const Tensor loss = dev_.Put({1}, {7}, DType::kF64);
  ops_.CrossEntropyLoss(max, sums, loss, stream_);
  EXPECT_EQ(dev_.Get(loss)[0], 7);
  ops_.CrossEntropyBackward(logits, {0}, sums, targets, 0, 0.5, stream_);
  EXPECT_EQ(dev_.Get(logits), Values(16, 0.0));
}

TEST_P(OpsCrossEntropySuite, NaNLogitsPropagate) {
  const Tensor logits = dev_.Put({1, 3}, {1, std::nan(""), 2}), max = dev_.NewWide({1}),
               sums = dev_.NewWide({2, 1}), targets = dev_.PutTokens({0});
  ops_.CrossEntropyForward(logits, {3}, targets, 0, max, sums, stream_);
  EXPECT_TRUE(std::isnan(dev_.Get(sums)[0]));
  const Tensor loss = dev_.Put({1}, {0}, DType::kF64);
  ops_.CrossEntropyRescale(max, sums, stream_);
  ops_.CrossEntropyLoss(max, sums, loss, stream_);
  EXPECT_TRUE(std::isnan(dev_.Get(loss)[0]));
  const Tensor whole_loss = dev_.Put({1}, {0}, DType::kF64);
  ops_.CrossEntropy(logits, {3}, targets, 1, whole_loss, stream_);
  EXPECT_TRUE(std::isnan(dev_.Get(whole_loss)[0]));
  for (const double gradient : dev_.Get(logits)) EXPECT_TRUE(std::isnan(gradient));
}

}  // namespace autocfg
