#include "cli/terminal/drawing.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace autocfg::cli {
namespace {

constexpr BarStyle kPlain = {.columns = 80, .unicode = false, .color = false};
constexpr BarStyle kBlocks = {.columns = 80, .unicode = true, .color = false};

TEST(Bar, LengthIsProportionalToShare) {
  EXPECT_EQ(Bar(1, 2, 8, kPlain), "####    ");
  EXPECT_EQ(Bar(2, 2, 4, kPlain), "####");
  EXPECT_EQ(Bar(3, 2, 4, kPlain), "####") << "no longer than the width";
  EXPECT_EQ(Bar(0, 2, 4, kPlain), "    ");
  EXPECT_EQ(Bar(1e-9, 2, 4, kPlain), "#   ") << "what is there is seen";
  EXPECT_EQ(Bar(1, 0, 4, kPlain), "    ");
  EXPECT_EQ(Bar(-1, 2, 4, kPlain), "    ");
  EXPECT_EQ(Bar(1, 2, 0, kPlain), "");
  EXPECT_EQ(Bar(1, 2, -3, kPlain), "");
}

TEST(Bar, BlocksHaveEighths) {
  EXPECT_EQ(Bar(1, 1, 3, kBlocks), "███");
  EXPECT_EQ(Bar(5, 16, 2, kBlocks), "▋ ");
  EXPECT_EQ(Bar(9, 16, 2, kBlocks), "█▏");
  EXPECT_EQ(Bar(1e-9, 1, 2, kBlocks), "▏ ");
  EXPECT_EQ(Bar(0, 1, 2, kBlocks), "  ");
}

TEST(Toned, UsesEscapesOnlyWithColour) {
  EXPECT_EQ(Toned("text", Tone::kBad, kPlain), "text");
  BarStyle colored = kPlain;
  colored.color = true;
  EXPECT_EQ(Toned("text", Tone::kPlain, colored), "text");
  EXPECT_EQ(Toned("text", Tone::kBad, colored), "\x1b[31mtext\x1b[0m");
}

TEST(StyleOf, FollowsTheLocale) {
  const auto with = [](const char* all, const char* lang) {
    setenv("LC_ALL", all, 1);
    unsetenv("LC_CTYPE");
    setenv("LANG", lang, 1);
    return StyleOf(-1).unicode;
  };
  EXPECT_TRUE(with("", "en_US.UTF-8"));
  EXPECT_TRUE(with("C.utf8", "C"));
  EXPECT_FALSE(with("C", "en_US.UTF-8")) << "LC_ALL goes before LANG";
  EXPECT_FALSE(with("", "C"));
  unsetenv("LC_ALL");
  unsetenv("LANG");
  EXPECT_FALSE(StyleOf(-1).unicode);
  EXPECT_EQ(StyleOf(-1).columns, 80) << "no terminal";
  EXPECT_FALSE(StyleOf(-1).color);
}

}  // namespace
}  // namespace autocfg::cli
