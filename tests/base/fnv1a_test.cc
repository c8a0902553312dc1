#include "base/fnv1a.h"

#include <gtest/gtest.h>

namespace autocfg::base {
namespace {

// Test vectors of the 64-bit FNV-1a reference (Fowler, Noll and Vo).
TEST(Fnv1a, MatchesTheReference) {
  EXPECT_EQ(Fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(Fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(Fnv1a("foobar"), 0x85944171f73967e8u);
}

TEST(Fnv1a, TakesBytesAsUnsigned) { EXPECT_EQ(Fnv1a("\xff"), (kFnv1aOfNothing ^ 0xffu) * 0x100000001b3u); }

TEST(Fnv1a, ContinuesFromAHash) {
  EXPECT_EQ(Fnv1a("bar", Fnv1a("foo")), Fnv1a("foobar"));
  EXPECT_NE(Fnv1a(std::string_view("\0", 1)), Fnv1a(""));
}

}  // namespace
}  // namespace autocfg::base
