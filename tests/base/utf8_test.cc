#include "base/utf8.h"

#include <gtest/gtest.h>

namespace autocfg::base {
namespace {

TEST(CleanUtf8, KeepsValidText) {
  for (const char* text : {"", "one\ntwo\tthree\n", "M\xc3\xbcnchen", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(CleanUtf8(text, 100), text);
}

TEST(CleanUtf8, ReplacesInvalidBytes) {
  EXPECT_EQ(CleanUtf8("a\xff\xfe z", 100), "a?? z");
  EXPECT_EQ(CleanUtf8("\xc3", 100), "?") << "cut short";
  EXPECT_EQ(CleanUtf8("\xc3(", 100), "?(");
  EXPECT_EQ(CleanUtf8("\x80", 100), "?") << "no beginning";
  EXPECT_EQ(CleanUtf8("\xc0\xaf", 100), "??") << "too long a form";
  EXPECT_EQ(CleanUtf8("\xe0\x80\xaf", 100), "???");
  EXPECT_EQ(CleanUtf8("\xed\xa0\x80", 100), "???") << "half a pair of UTF-16";
  EXPECT_EQ(CleanUtf8("\xf4\x90\x80\x80", 100), "????") << "beyond the last character";
  EXPECT_EQ(CleanUtf8(std::string("a\0b\rc\x1b[1m\x7f", 10), 100), "a?b?c?[1m?");
}

TEST(CleanUtf8, KeepsTheEndAtCharacterBoundaries) {
  EXPECT_EQ(CleanUtf8("abcdef", 3), "def");
  EXPECT_EQ(CleanUtf8("a\xe2\x82\xac!", 3), "!");
  EXPECT_EQ(CleanUtf8("a\xe2\x82\xac!", 4), "\xe2\x82\xac!");
}

}  // namespace
}  // namespace autocfg::base
