// Searches of the default space for every published run: minutes.
#include "gtest/gtest.h"
#include "tests/accuracy/sc21_searches.h"

namespace autocfg {
namespace {

TEST(Sc21Slow, SearchOfTheDefaultSpacePicksNothingSlower) { test::ExpectNothingSlower({}); }

// Attention as in 2021, and every other option that has come since.
TEST(Sc21Slow, SearchOfUnfusedAttentionPicksNothingSlower) {
  test::ExpectNothingSlower({{"attention", {"unfused"}},
                             {"scatter_gather", {"0", "1"}},
                             {"recompute", {"none", "selective", "full"}}});
}

}  // namespace
}  // namespace autocfg
