#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace autocfg::base {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Text, TrimmedCutsBlanksAtTheEndsAlone) {
  EXPECT_EQ(Trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trimmed(" \r\n\t"), "");
  EXPECT_EQ(Trimmed(""), "");
}

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

TEST(NearestNames, ByDistance) {
  const std::vector<std::string> many = {"schedule", "split", "sp",        "tp",
                                         "dp",       "pp",    "recompute", "attention"};
  EXPECT_THAT(NearestNames("shedule", many), ElementsAre("schedule"));
  EXPECT_THAT(NearestNames("tp", many), ElementsAre("tp", "sp", "dp"));
  EXPECT_THAT(NearestNames("rec", many), ElementsAre("recompute"));
  EXPECT_THAT(NearestNames("quantum", many), IsEmpty());
  EXPECT_THAT(NearestNames("quantum", {"a", "b"}), ElementsAre("a", "b"));
  EXPECT_THAT(NearestNames("", many), IsEmpty());
  EXPECT_THAT(NearestNames("x", {}), IsEmpty());
}

TEST(DidYouMean, Sentence) {
  EXPECT_EQ(DidYouMean("aa", {"ab", "ac", "ad", "zz"}), "; did you mean ab, ac or ad?");
  EXPECT_EQ(DidYouMean("aa", {"ab"}), "; did you mean ab?");
  EXPECT_EQ(DidYouMean("quantum", {"a", "b", "c", "d", "e", "f", "g"}), "");
}

TEST(NearestNames, IgnoresCaseAndHyphens) {
  const std::vector<std::string> presets = {"a100-40gb-sxm", "a100-80gb-sxm", "h100-sxm", "gpt2-124m",
                                            "gpt2-1.5b"};
  EXPECT_THAT(NearestNames("H100", presets), ElementsAre("h100-sxm"));
  EXPECT_THAT(NearestNames("A100", presets), ElementsAre("a100-40gb-sxm", "a100-80gb-sxm"));
  EXPECT_THAT(NearestNames("gpt-2", presets), ElementsAre("gpt2-124m", "gpt2-1.5b"));
  EXPECT_THAT(NearestNames("GPT2_124M", presets), ElementsAre("gpt2-124m", "gpt2-1.5b"));
}

TEST(DidYouMeanPreset, ListsAllIfNoneIsNear) {
  EXPECT_EQ(DidYouMeanPreset("llama", {"llama2-7b", "gpt2-124m"}), "; did you mean llama2-7b?");
  EXPECT_EQ(DidYouMeanPreset("mine", {"llama2-7b", "gpt2-124m"}),
            "; give one of llama2-7b, gpt2-124m, or a file whose name ends in .json");
}

TEST(ChoiceText, EndsInOr) {
  EXPECT_EQ(ChoiceText({}), "");
  EXPECT_EQ(ChoiceText({"a"}), "a");
  EXPECT_EQ(ChoiceText({"a", "b"}), "a or b");
  EXPECT_EQ(ChoiceText({"a", "b", "c"}), "a, b or c");
}

TEST(BytesText, Units) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText((std::int64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(BytesText(std::int64_t{23} << 30), "23.0 GiB");
  EXPECT_EQ(BytesText(-2048), "-2.0 KiB");
  EXPECT_EQ(BytesText(std::numeric_limits<std::int64_t>::max()), "8.0 EiB");
}

TEST(Cut, EndsBetweenCharacters) {
  EXPECT_EQ(Cut("four", 4), "four");
  EXPECT_EQ(Cut("fours", 4), "four...");
  EXPECT_EQ(Cut("a\xc3\xa4\xc3\xa4", 4), "a\xc3\xa4...");
  EXPECT_EQ(Cut("", 0), "");
}

TEST(OneLine, HasNoControlCharacters) {
  EXPECT_EQ(OneLine("\n two\r\n\tlines\x1b[1m \n"), " two lines [1m");
  EXPECT_EQ(OneLine("a\nb\nc", 3), "a b...");
  EXPECT_EQ(OneLine("\xc3\xa4"), "\xc3\xa4");
}

TEST(SecondsText, Units) {
  EXPECT_EQ(SecondsText(0), "0 s");
  EXPECT_EQ(SecondsText(850e-6), "850 us");
  EXPECT_EQ(SecondsText(12.3e-3), "12.3 ms");
  EXPECT_EQ(SecondsText(1.25), "1.25 s");
  EXPECT_EQ(SecondsText(125), "2 min 05 s");
  EXPECT_EQ(SecondsText(59.97), "1 min 00 s");
  EXPECT_EQ(SecondsText(7322), "2 h 02 min");
  EXPECT_EQ(SecondsText(-0.5), "-500 ms");
  EXPECT_EQ(SecondsText(std::numeric_limits<double>::infinity()), "inf s");
}

TEST(CountText, Thousands) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(CountText(-123456), "-123,456");
  EXPECT_EQ(CountText(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace autocfg::base
