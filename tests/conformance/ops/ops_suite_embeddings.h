// OpsSuite: embeddings of tokens and of positions; RoPE (rotary position embedding).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"

namespace autocfg {

TEST_P(OpsSuite, Embedding) {
  const std::int64_t width = 5, vocab = 4, start = 10;
  const std::vector<std::int32_t> tokens{10, 13, 9, 14, 11, 13, 0};
  const Values table = Random(vocab * width, 1), dout = Random(7 * width, 2), old = Random(vocab * width, 3);
  Values want(tokens.size() * width, 0.0), dwant = old;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::int64_t row = tokens[t] - start;
    if (row < 0 || row >= vocab) continue;
    for (std::int64_t i = 0; i < width; ++i) {
      want[t * width + i] = table[row * width + i];
      dwant[row * width + i] += dout[t * width + i];
    }
  }
  const Tensor tokens_ = dev_.PutTokens(tokens), out = dev_.New({7, width}),
               dtable = dev_.PutGradient({vocab, width}, old);
  ops_.EmbeddingForward(tokens_, dev_.Put({vocab, width}, table), start, out, stream_);
  EXPECT_EQ(dev_.Get(out), want);
  const Tensor dout_ = dev_.Put({7, width}, dout);
  ops_.EmbeddingBackward(tokens_, dout_, start, dtable, true, stream_);
  Near(dtable, dwant, "dtable");
  ops_.EmbeddingBackward(tokens_, dout_, start, dtable, false, stream_);
  for (std::size_t i = 0; i < dwant.size(); ++i) dwant[i] -= old[i];
  Near(dtable, dwant, "dtable written");
}

TEST_P(OpsSuite, Position) {
  const std::int64_t batch = 3, seq = 4, width = 5, positions = 6;
  const Values y = Random(batch * seq * width, 1), table = Random(positions * width, 2);
  Values want = y, dwant = table;
  for (std::int64_t i = 0; i < batch * seq * width; ++i) {
    want[i] += table[i % (seq * width)];
    dwant[i % (seq * width)] += y[i];
  }
  const Tensor y_ = dev_.Put({batch * seq, width}, y), dy = dev_.Put({batch, seq, width}, y);
  const Tensor table_ = dev_.Put({positions, width}, table);
  ops_.PositionForward(y_, seq, 0, table_, stream_);
  Near(y_, want, "y");
  const Tensor dtable = dev_.PutGradient({positions, width}, table);
  ops_.PositionBackward(dy, dtable, true, stream_);
  Near(dtable, dwant, "dtable");
  ops_.PositionBackward(dy, dtable, false, stream_);
  for (std::size_t i = 0; i < dwant.size(); ++i) dwant[i] -= table[i];
  Near(dtable, dwant, "dtable written");
}

// A part of the tokens: it begins and ends anywhere in a sequence, or lies in one.
TEST_P(OpsSuite, PositionsOfAPartOfTheTokens) {
  const std::int64_t seq = 4, width = 8;
  const Values table = Random(seq * width, 2);
  const Tensor table_ = dev_.Put({seq, width}, table);
  for (const std::int64_t first : {0, 1, 3, 4, 6}) {
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 9, 14}) {
      Values want = Random(rows * width, 1);
      const Tensor y = dev_.Put({rows, width}, want);
      for (std::int64_t i = 0; i < rows * width; ++i)
        want[i] += table[((first + i / width) % seq) * width + i % width];
      ops_.PositionForward(y, seq, first, table_, stream_);
      Near(y, want, "y");
    }
  }
}

TEST_P(OpsSuite, RopeRotatesAndRotatesBack) {
  struct Sizes {
    std::int64_t batch, seq, heads, dim, rotary, rest;  // rest: columns after the heads, which stay unchanged
    double theta;
  };
  for (const Sizes& z :
       {Sizes{1, 1, 1, 2, 2, 0, 1e4}, Sizes{2, 5, 3, 4, 4, 3, 1e4}, Sizes{1, 300, 2, 64, 64, 32, 5e5},
        Sizes{2, 40, 1, 260, 260, 7, 1e4}, Sizes{1, 33, 5, 6, 6, 0, 0.5}, Sizes{1, 2048, 1, 128, 128, 1, 1e6},
        // Partial: in packs, with heads or halves that are none, and of a head dimension that is odd.
        Sizes{2, 17, 3, 64, 32, 64, 1e4}, Sizes{1, 40, 2, 80, 20, 8, 1e4}, Sizes{1, 9, 3, 36, 16, 4, 1e4},
        Sizes{1, 300, 2, 256, 64, 256, 1e4}, Sizes{2, 5, 3, 5, 2, 1, 1e4},
        Sizes{1, 20, 2, 300, 260, 3, 1e4}}) {
    const std::int64_t width = z.heads * z.dim + z.rest;
    const Values qkv = Random(z.batch * z.seq * width, 1);
    Values want = qkv, back = qkv;
    const RotaryFrequencies plain{z.theta};
    reference::Rope(z.batch, z.seq, width, z.heads, z.dim, z.rotary, plain, 1, want);
    reference::Rope(z.batch, z.seq, width, z.heads, z.dim, z.rotary, plain, -1, back);
    const std::string at =
        " S=" + std::to_string(z.seq) + " D=" + std::to_string(z.dim) + " r=" + std::to_string(z.rotary);
    const Tensor turned = dev_.Put({z.batch, z.seq, width}, qkv),
                 inverse = dev_.Put({z.batch, z.seq, width}, qkv);
    ops_.Rope(turned, z.heads, z.dim, z.rotary, plain, false, stream_);
    // Angles of up to S are rounded before their sine is taken.
    Near(turned, want, "turned" + at, 1 + static_cast<double>(z.seq) / 500);
    ops_.Rope(inverse, z.heads, z.dim, z.rotary, plain, true, stream_);
    Near(inverse, back, "turned back" + at, 1 + static_cast<double>(z.seq) / 500);
    ops_.Rope(turned, z.heads, z.dim, z.rotary, plain, true, stream_);
    Near(turned, qkv, "there and back" + at, 1, 1);
  }
}

// Scaled frequencies, and a factor of cosines and sines, which the gradient has too.
TEST_P(OpsSuite, RopeScalesFrequencies) {
  struct Sizes {
    std::int64_t batch, seq, heads, dim, rotary, rest;
    double factor;
  };
  for (const Sizes& z :
       {Sizes{1, 7, 1, 2, 2, 0, 1}, Sizes{2, 5, 3, 4, 4, 3, 1.25}, Sizes{1, 300, 2, 64, 64, 32, 0.5},
        Sizes{2, 40, 1, 260, 256, 7, 1.5}, Sizes{2, 17, 3, 64, 32, 64, 1.1}, Sizes{1, 9, 3, 36, 16, 4, 2}}) {
    const std::int64_t width = z.heads * z.dim + z.rest;
    const Values qkv = Random(z.batch * z.seq * width, 1);
    const RotaryFrequencies scaled{5e4, Random(z.rotary / 2, 3, 0.02, 1), z.factor};
    Values want = qkv, gradient = qkv;
    reference::Rope(z.batch, z.seq, width, z.heads, z.dim, z.rotary, scaled, 1, want);
    reference::Rope(z.batch, z.seq, width, z.heads, z.dim, z.rotary, scaled, -1, gradient);
    const std::string at = " D=" + std::to_string(z.dim) + " r=" + std::to_string(z.rotary);
    const Tensor turned = dev_.Put({z.batch, z.seq, width}, qkv),
                 inverse = dev_.Put({z.batch, z.seq, width}, qkv);
    ops_.Rope(turned, z.heads, z.dim, z.rotary, scaled, false, stream_);
    Near(turned, want, "turned" + at, 2);
    ops_.Rope(inverse, z.heads, z.dim, z.rotary, scaled, true, stream_);
    Near(inverse, gradient, "turned back" + at, 2);
  }
}

// The purpose of RoPE: the product of a rotated q and a rotated k depends only on their distance.
TEST_P(OpsSuite, RopeMakesScoresRelative) {
  const std::int64_t seq = 20, dim = 8;
  const Values head = Random(dim, 1);
  Values rows;
  for (std::int64_t s = 0; s < seq; ++s) rows.insert(rows.end(), head.begin(), head.end());
  const Tensor qkv = dev_.Put({1, seq, dim}, rows);
  ops_.Rope(qkv, 1, dim, dim, {100}, false, stream_);
  const Values turned = dev_.Get(qkv);
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t i = 0; i < dim; ++i) sum += turned[a * dim + i] * turned[b * dim + i];
    return sum;
  };
  for (std::int64_t s = 3; s < seq; ++s)
    EXPECT_NEAR(dot(s, s - 3), dot(3, 0), (GetParam().tolerance + NarrowRounding(dev_.type)) * 10) << s;
  EXPECT_GT(std::abs(dot(3, 0) - dot(0, 0)), 0.01);
}

}  // namespace autocfg
