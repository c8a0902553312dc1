// Causal attention, fused and unfused, with its gradients, for every Ops that computes. It has no parameters,
// so that it is not run again for the types of their gradients. Extends OpsSuite; include in the same test
// file and instantiate OpsAttentionSuite.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "search/ops/memory_sizes.h"
#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"

namespace autocfg {

class OpsAttentionSuite : public OpsSuite {};

constexpr std::array<reference::AttentionSizes, 26> kAttentionSizes{{{1, 1, 1, 1, 1},
                                                                     {2, 5, 2, 3, 2},
                                                                     {1, 127, 1, 8, 1},
                                                                     {1, 128, 2, 4, 2},
                                                                     {1, 129, 1, 5, 1},
                                                                     {1, 300, 1, 7, 1},
                                                                     {1, 256, 1, 64, 1},
                                                                     {1, 1, 2, 1, 1},
                                                                     {2, 5, 4, 3, 2},
                                                                     {1, 130, 6, 4, 2},
                                                                     {2, 129, 3, 5, 1},
                                                                     {1, 260, 2, 8, 2},
                                                                     // scales, and slopes of ALiBi
                                                                     {1, 130, 2, 8, 2, 0.75},
                                                                     {2, 19, 4, 16, 2, 0, 4},
                                                                     {1, 140, 6, 8, 3, 0, 6},
                                                                     {1, 70, 5, 24, 1, 0.3, 12, 7},
                                                                     {1, 33, 3, 5, 1, 0, 20, 16},
                                                                     // soft caps and windows
                                                                     {1, 130, 2, 8, 1, 0, 0, 0, 1.5},
                                                                     {2, 19, 4, 16, 2, 0.3, 0, 0, 50},
                                                                     {1, 9, 2, 3, 1, 0, 0, 0, 0, 1},
                                                                     {2, 19, 4, 8, 2, 0, 0, 0, 0, 4},
                                                                     {1, 300, 2, 8, 1, 0, 0, 0, 0, 37},
                                                                     {1, 260, 2, 16, 2, 0, 0, 0, 0, 130},
                                                                     {1, 70, 1, 5, 1, 0, 0, 0, 0, 70},
                                                                     {1, 200, 4, 16, 2, 0.2, 0, 0, 2, 64},
                                                                     {1, 150, 5, 8, 1, 0, 12, 7, 3, 20}}};

inline std::string Describe(const reference::AttentionSizes& z) {
  return " S=" + std::to_string(z.seq) + " D=" + std::to_string(z.dim) + " N/G=" + std::to_string(z.heads) +
         "/" + std::to_string(z.kv_heads) + " scale=" + std::to_string(z.scale) + " slopes from " +
         std::to_string(z.first_head) + " of " + std::to_string(z.alibi_heads) +
         " softcap=" + std::to_string(z.softcap) + " window=" + std::to_string(z.window);
}

inline AttentionForm FormOf(const reference::AttentionSizes& z) {
  return {z.heads, z.kv_heads, z.scale, z.alibi_heads, z.first_head, z.softcap, z.window};
}

TEST_P(OpsAttentionSuite, Attention) {
  for (const reference::AttentionSizes& z : kAttentionSizes) {
    for (double magnitude : {1.0, 20.0}) {
      const Values qkv = Random(z.Tokens() * z.Row(), 1, -magnitude, magnitude);
      const Values dout = Random(z.Tokens() * z.Width(), 2);
      const Tensor qkv_ = dev_.Put({z.batch, z.seq, z.Row()}, qkv),
                   lse = dev_.NewWide({z.batch, z.heads, z.seq});
      const Tensor out = dev_.New({z.batch, z.seq, z.Width()}),
                   dout_ = dev_.Put({z.batch, z.seq, z.Width()}, dout);
      const Tensor dqkv = dev_.New({z.batch, z.seq, z.Row()});
      const Tensor workspace = dev_.NewWide({AttentionWorkspaceElements(z.seq, z.dim)});
      const reference::Attention want = reference::CausalAttention(z, qkv, dout);
      const std::string at = Describe(z);
      // Scores of magnitude^2 sqrt(D) are rounded; the exponential magnifies that rounding.
      const double factor = 4 * std::max(1.0, magnitude * magnitude);
      ops_.AttentionForward(qkv_, FormOf(z), out, lse, workspace, stream_);
      Near(out, want.out, "out" + at, factor, 1);  // probabilities are rounded
      Near(lse, want.lse, "lse" + at, 4);
      dev_.Set(workspace, Values(static_cast<std::size_t>(workspace.Elements()), std::nan("")));
      ops_.AttentionBackward(qkv_, FormOf(z), out, lse, dout_, dqkv, workspace, stream_);
      // The backward subtracts dout * out, whose rounding is of the size of v, even if the exact difference
      // is small; q and k magnify it.
      Near(dqkv, want.dqkv, "dqkv" + at, factor, std::max(4.0, magnitude));
      EXPECT_EQ(dev_.Get(qkv_), qkv) << "the input was changed";
    }
  }
}

TEST_P(OpsAttentionSuite, UnfusedAttention) {
  for (const reference::AttentionSizes& z : kAttentionSizes) {
    for (double magnitude : {1.0, 20.0}) {
      const Values qkv = Random(z.Tokens() * z.Row(), 1, -magnitude, magnitude);
      const Values dout = Random(z.Tokens() * z.Width(), 2);
      const Tensor qkv_ = dev_.Put({z.batch, z.seq, z.Row()}, qkv),
                   dout_ = dev_.Put({z.batch, z.seq, z.Width()}, dout);
      const Tensor out = dev_.New({z.batch, z.seq, z.Width()}), dqkv = dev_.New({z.batch, z.seq, z.Row()});
      const Tensor probabilities = dev_.New({z.batch, z.heads, z.seq, z.seq}),
                   dscores = dev_.New({z.batch, z.heads, z.seq, z.seq});
      const reference::Attention want = reference::CausalAttention(z, qkv, dout);
      const std::string at = Describe(z);
      const double factor = 4 * std::max(1.0, magnitude * magnitude);  // as in fused attention
      ops_.UnfusedAttentionForward(qkv_, FormOf(z), probabilities, out, stream_);
      Near(probabilities, want.probabilities, "probabilities" + at, factor);
      Near(out, want.out, "out" + at, factor, 1);
      const Values stored = dev_.Get(probabilities);
      for (std::int64_t row = 0; row < z.batch * z.heads * z.seq; ++row) {
        const std::int64_t query = row % z.seq, first = FormOf(z).FirstKey(query);
        for (std::int64_t key = 0; key < z.seq; ++key) {
          if (key >= first && key <= query) continue;
          ASSERT_EQ(stored[row * z.seq + key], 0) << "of a key that the query does not attend to" << at;
        }
      }
      ops_.UnfusedAttentionBackward(qkv_, FormOf(z), probabilities, out, dout_, dqkv, dscores, stream_);
      Near(dqkv, want.dqkv, "dqkv" + at, factor, std::max(4.0, magnitude));
      EXPECT_EQ(dev_.Get(qkv_), qkv) << "the input was changed";
      EXPECT_EQ(dev_.Get(probabilities), stored) << "the probabilities were changed";
    }
  }
}

TEST_P(OpsAttentionSuite, UnfusedAttentionEqualsFused) {
  const double tolerance = dev_.type == DType::kF64 ? 1e-12 : 4 * GetParam().tolerance;
  const double rounding = NarrowRounding(dev_.type);
  for (const reference::AttentionSizes& z : kAttentionSizes) {
    const Tensor qkv = dev_.Put({z.batch, z.seq, z.Row()}, Random(z.Tokens() * z.Row(), 1, -2, 2)),
                 dout = dev_.Put({z.batch, z.seq, z.Width()}, Random(z.Tokens() * z.Width(), 2));
    const Tensor lse = dev_.NewWide({z.batch, z.heads, z.seq}),
                 workspace = dev_.NewWide({AttentionWorkspaceElements(z.seq, z.dim)});
    const Tensor fused_out = dev_.New({z.batch, z.seq, z.Width()}),
                 fused_dqkv = dev_.New({z.batch, z.seq, z.Row()});
    ops_.AttentionForward(qkv, FormOf(z), fused_out, lse, workspace, stream_);
    ops_.AttentionBackward(qkv, FormOf(z), fused_out, lse, dout, fused_dqkv, workspace, stream_);
    const Tensor probabilities = dev_.New({z.batch, z.heads, z.seq, z.seq}),
                 dscores = dev_.New({z.batch, z.heads, z.seq, z.seq});
    const Tensor out = dev_.New({z.batch, z.seq, z.Width()}), dqkv = dev_.New({z.batch, z.seq, z.Row()});
    ops_.UnfusedAttentionForward(qkv, FormOf(z), probabilities, out, stream_);
    ops_.UnfusedAttentionBackward(qkv, FormOf(z), probabilities, out, dout, dqkv, dscores, stream_);
    ExpectNear(dev_.Get(out), dev_.Get(fused_out), tolerance + rounding, "out" + Describe(z), rounding);
    ExpectNear(dev_.Get(dqkv), dev_.Get(fused_dqkv), tolerance + 4 * rounding, "dqkv" + Describe(z),
               rounding);
  }
}

TEST_P(OpsAttentionSuite, AttentionIgnoresLaterTokens) {
  const reference::AttentionSizes z{1, 140, 2, 6, 1};
  const Values qkv = Random(z.Tokens() * z.Row(), 1);
  Values changed = qkv;
  std::fill(changed.end() - z.Row(), changed.end(), 1000.0);  // the last token
  const Tensor qkv_ = dev_.New({1, z.seq, z.Row()}), out = dev_.New({1, z.seq, z.Width()});
  const Tensor lse = dev_.NewWide({1, z.heads, z.seq}),
               workspace = dev_.NewWide({AttentionWorkspaceElements(z.seq, z.dim)}),
               probabilities = dev_.New({1, z.heads, z.seq, z.seq});
  for (const bool unfused : {false, true}) {
    const auto earlier_rows = [&](const Values& values) {
      dev_.Set(qkv_, values);
      if (unfused) {
        ops_.UnfusedAttentionForward(qkv_, FormOf(z), probabilities, out, stream_);
      } else {
        ops_.AttentionForward(qkv_, FormOf(z), out, lse, workspace, stream_);
      }
      Values rows = dev_.Get(out);
      rows.resize(rows.size() - static_cast<std::size_t>(z.Width()));
      return rows;
    };
    const Values before = earlier_rows(qkv);
    ExpectNear(earlier_rows(changed), before, GetParam().tolerance, unfused ? "unfused" : "fused",
               NarrowRounding(dev_.type));
  }
}

}  // namespace autocfg
