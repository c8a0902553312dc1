// Tests nearest names, and sizes for people.
#include <cstdint>
#include <limits>

#include "base/size_text.h"
#include "base/suggest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/text/presets.h"

namespace autocfg {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NearestNames, ByDistance) {
  const std::vector<std::string> many = {"schedule", "split", "sp",        "tp",
                                         "dp",       "pp",    "recompute", "attention"};
  EXPECT_THAT(base::NearestNames("shedule", many), ElementsAre("schedule"));
  EXPECT_THAT(base::NearestNames("tp", many), ElementsAre("tp", "sp", "dp"));
  EXPECT_THAT(base::NearestNames("rec", many), ElementsAre("recompute"));
  EXPECT_THAT(base::NearestNames("quantum", many), IsEmpty());
  EXPECT_THAT(base::NearestNames("quantum", {"a", "b"}), ElementsAre("a", "b"));
  EXPECT_THAT(base::NearestNames("", many), IsEmpty());
  EXPECT_THAT(base::NearestNames("x", {}), IsEmpty());
}

TEST(DidYouMean, Sentence) {
  EXPECT_EQ(base::DidYouMean("aa", {"ab", "ac", "ad", "zz"}), "; did you mean ab, ac or ad?");
  EXPECT_EQ(base::DidYouMean("aa", {"ab"}), "; did you mean ab?");
  EXPECT_EQ(base::DidYouMean("quantum", {"a", "b", "c", "d", "e", "f", "g"}), "");
}

TEST(NearestNames, IgnoresCaseAndHyphens) {
  const std::vector<std::string> presets = {"a100-40gb-sxm", "a100-80gb-sxm", "h100-sxm", "gpt2-124m",
                                            "gpt2-1.5b"};
  EXPECT_THAT(base::NearestNames("H100", presets), ElementsAre("h100-sxm"));
  EXPECT_THAT(base::NearestNames("A100", presets), ElementsAre("a100-40gb-sxm", "a100-80gb-sxm"));
  EXPECT_THAT(base::NearestNames("gpt-2", presets), ElementsAre("gpt2-124m", "gpt2-1.5b"));
  EXPECT_THAT(base::NearestNames("GPT2_124M", presets), ElementsAre("gpt2-124m", "gpt2-1.5b"));
}

TEST(DidYouMeanPreset, ListsAllIfNoneIsNear) {
  EXPECT_EQ(base::DidYouMeanPreset("llama", {"llama2-7b", "gpt2-124m"}), "; did you mean llama2-7b?");
  EXPECT_EQ(base::DidYouMeanPreset("mine", {"llama2-7b", "gpt2-124m"}),
            "; give one of llama2-7b, gpt2-124m, or a file whose name ends in .json");
}

TEST(BytesText, Units) {
  EXPECT_EQ(base::BytesText(0), "0 B");
  EXPECT_EQ(base::BytesText(512), "512 B");
  EXPECT_EQ(base::BytesText(1536), "1.5 KiB");
  EXPECT_EQ(base::BytesText((std::int64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(base::BytesText(std::int64_t{23} << 30), "23.0 GiB");
  EXPECT_EQ(base::BytesText(-2048), "-2.0 KiB");
  EXPECT_EQ(base::BytesText(std::numeric_limits<std::int64_t>::max()), "8.0 EiB");
}

TEST(SecondsText, Units) {
  EXPECT_EQ(base::SecondsText(0), "0 s");
  EXPECT_EQ(base::SecondsText(850e-6), "850 us");
  EXPECT_EQ(base::SecondsText(12.3e-3), "12.3 ms");
  EXPECT_EQ(base::SecondsText(1.25), "1.25 s");
  EXPECT_EQ(base::SecondsText(125), "2 min 05 s");
  EXPECT_EQ(base::SecondsText(59.97), "1 min 00 s");
  EXPECT_EQ(base::SecondsText(7322), "2 h 02 min");
  EXPECT_EQ(base::SecondsText(-0.5), "-500 ms");
  EXPECT_EQ(base::SecondsText(std::numeric_limits<double>::infinity()), "inf s");
}

TEST(CountText, Thousands) {
  EXPECT_EQ(base::CountText(0), "0");
  EXPECT_EQ(base::CountText(999), "999");
  EXPECT_EQ(base::CountText(1000), "1,000");
  EXPECT_EQ(base::CountText(1234567), "1,234,567");
  EXPECT_EQ(base::CountText(-123456), "-123,456");
  EXPECT_EQ(base::CountText(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(EmbeddedPresets, Sorted) {
  const auto presets = EmbeddedPresets();
  ASSERT_FALSE(presets.empty());
  for (std::size_t i = 1; i < presets.size(); ++i) {
    EXPECT_LT(std::make_pair(presets[i - 1].kind, presets[i - 1].name),
              std::make_pair(presets[i].kind, presets[i].name));
  }
}

}  // namespace
}  // namespace autocfg
