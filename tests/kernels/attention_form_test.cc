#include "kernels/attention_form.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/ops/ops_reference.h"

namespace autocfg {
namespace {

TEST(AttentionForm, SlopesAreThoseOfThePapersCode) {
  for (std::int64_t heads = 1; heads <= 130; ++heads) {
    const auto want = reference::PaperSlopes(heads);
    ASSERT_EQ(static_cast<std::int64_t>(want.size()), heads);
    for (std::int64_t head = 0; head < heads; ++head) {
      EXPECT_NEAR(AlibiSlope(heads, head), want[static_cast<std::size_t>(head)],
                  1e-12 * want[static_cast<std::size_t>(head)])
          << head << " of " << heads;
    }
  }
}

// Examples of the paper (section 3): 8 heads have 1/2, 1/4 ... 1/256, and 16 heads are their geometric means.
TEST(AttentionForm, SlopesOfThePapersExamples) {
  EXPECT_DOUBLE_EQ(AlibiSlope(8, 0), 0.5);
  EXPECT_DOUBLE_EQ(AlibiSlope(8, 7), 1.0 / 256);
  EXPECT_DOUBLE_EQ(AlibiSlope(16, 0), std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(AlibiSlope(16, 15), 1.0 / 256);
}

TEST(AttentionForm, ARankHasTheSlopesOfItsOwnHeads) {
  const AttentionForm form{.heads = 4, .kv_heads = 2, .alibi_heads = 12, .first_head = 8};
  for (std::int64_t head = 0; head < 4; ++head) EXPECT_EQ(SlopeOf(form, head), AlibiSlope(12, 8 + head));
  EXPECT_EQ(SlopeOf(AttentionForm{.heads = 4, .kv_heads = 4}, 1), 0);
}

TEST(AttentionForm, AWindowEndsAtTheQuery) {
  const AttentionForm form{.window = 3};
  EXPECT_EQ(form.FirstKey(0), 0);
  EXPECT_EQ(form.FirstKey(2), 0);
  EXPECT_EQ(form.FirstKey(7), 5) << "keys 5, 6 and 7";
  EXPECT_EQ(AttentionForm{}.FirstKey(7), 0);
}

TEST(AttentionForm, ScalesByTheHeadDimensionUnlessToldOtherwise) {
  EXPECT_DOUBLE_EQ(AttentionForm{}.ScaleOf(64), 0.125);
  EXPECT_DOUBLE_EQ(AttentionForm{.scale = 0.3}.ScaleOf(64), 0.3);
}

}  // namespace
}  // namespace autocfg
