#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace autocfg::base {
namespace {

using ::testing::HasSubstr;

TEST(Units, TextsMeanWhatTheyAreWrittenFor) {
  struct Written {
    Quantity quantity;
    const char* text;
    double value;
  };
  for (const auto& [quantity, text, value] : {Written{Quantity::kSequenceLength, "8192", 8192},
                                              Written{Quantity::kSequenceLength, "8k", 8192},
                                              Written{Quantity::kSequenceLength, "128K", 131072},
                                              Written{Quantity::kSequenceLength, "1M", 1048576},
                                              Written{Quantity::kTokens, "5k", 5000},
                                              Written{Quantity::kTokens, "300B", 300e9},
                                              Written{Quantity::kTokens, "1T", 1e12},
                                              Written{Quantity::kTokens, "300e9", 300e9},
                                              Written{Quantity::kSeconds, "2h", 7200},
                                              Written{Quantity::kSeconds, "10min", 600},
                                              Written{Quantity::kSeconds, "1h30m", 5400},
                                              Written{Quantity::kSeconds, "90d", 7776000},
                                              Written{Quantity::kBytes, "80GB", 80e9},
                                              Written{Quantity::kBytes, "80GiB", 85899345920.0},
                                              Written{Quantity::kBytesPerSecond, "400GB/s", 400e9},
                                              Written{Quantity::kBytesPerSecond, "200Gb/s", 25e9},
                                              Written{Quantity::kBytesPerSecond, "200Gbps", 25e9},
                                              Written{Quantity::kBytesPerSecond, "200Gbit/s", 25e9},
                                              Written{Quantity::kBytesPerSecond, "3.35TB/s", 3.35e12},
                                              Written{Quantity::kBytesPerSecond, "8b/s", 1},
                                              Written{Quantity::kFlopsPerSecond, "989TFLOP/s", 989e12},
                                              Written{Quantity::kFlopsPerSecond, "1PFLOPS", 1e15},
                                              Written{Quantity::kPrice, "$2.10", 2.1},
                                              Written{Quantity::kPrice, "€3", 3},
                                              Written{Quantity::kPrice, "2.10", 2.1}}) {
    const auto parsed = ParseQuantity(quantity, text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_DOUBLE_EQ(*parsed, value) << text;
  }
}

// Bits and bytes differ by their letter alone: any other spelling could be either.
TEST(Units, BandwidthsThatCouldBeBitsOrBytesAreRefusedWithBoth) {
  for (const char* text : {"200gb/s", "200GB/S", "200gbps", "200G", "200g", "1t", "3mb/s"}) {
    const std::string message(ParseQuantity(Quantity::kBytesPerSecond, text).status().message());
    EXPECT_THAT(message, HasSubstr(std::string("invalid value '") + text + "': it could be ")) << text;
    EXPECT_THAT(message, HasSubstr("(b is a bit, B a byte); write which")) << text;
  }
  EXPECT_THAT(std::string(ParseQuantity(Quantity::kBytesPerSecond, "200gb/s").status().message()),
              HasSubstr("200GB/s or 200Gb/s"));
}

TEST(Units, BadTextsAreRefusedWithWhatToWrite) {
  for (const auto& [quantity, text, says] :
       {std::tuple{Quantity::kSequenceLength, "8kk",
                   "invalid value '8kk': unknown unit 'kk'; write 8192 or 8k"},
        std::tuple{Quantity::kSequenceLength, "8m", "did you mean 8M?"},
        std::tuple{Quantity::kSequenceLength, "8k2", "invalid value '8k2'"},
        std::tuple{Quantity::kSequenceLength, "k", "invalid value 'k'"},
        std::tuple{Quantity::kSequenceLength, "", "invalid value ''"},
        std::tuple{Quantity::kSequenceLength, "-8k", "invalid value '-8k'"},
        std::tuple{Quantity::kSequenceLength, "+8k", "invalid value '+8k'"},
        std::tuple{Quantity::kSequenceLength, "8 k", "unknown unit ' k'"},
        std::tuple{Quantity::kTokens, "300G", "unknown unit 'G'; write 300e9, 300B or 1.5T"},
        std::tuple{Quantity::kTokens, "1t", "did you mean 1T?"},
        std::tuple{Quantity::kTokens, "1e400", "invalid value '1e400'"},
        std::tuple{Quantity::kTokens, "inf", "invalid value 'inf'"},
        std::tuple{Quantity::kTokens, "1,5T", "unknown unit ','"},
        std::tuple{Quantity::kSeconds, "2H", "did you mean 2h?"},
        std::tuple{Quantity::kSeconds, "1h30", "invalid value '1h30'"},
        std::tuple{Quantity::kSeconds, "2w", "unknown unit 'w'; write 90, 90s, 10m or 2h"},
        std::tuple{Quantity::kBytes, "80Gb", "did you mean 80GB?"},
        std::tuple{Quantity::kBytes, "80G", "could be 80GB or 80GiB; write which"},
        std::tuple{Quantity::kBytesPerSecond, "400", ""},
        std::tuple{Quantity::kBytesPerSecond, "fast",
                   "invalid value 'fast'; write 400GB/s (bytes) or 200Gb/s"},
        std::tuple{Quantity::kBytesPerSecond, "400miles", "unknown unit 'miles'"},
        std::tuple{Quantity::kFlopsPerSecond, "989T", "could be 989TFLOP/s or 989TFLOPS; write which"},
        std::tuple{Quantity::kPrice, "$", "invalid value '$'; write 2.10 or '$2.10' (in quotes)"},
        std::tuple{Quantity::kPrice, "$-2", "invalid value '$-2'"},
        std::tuple{Quantity::kPrice, ".10", "write 2.10 or '$2.10' (in quotes), or 0.10 if it is meant"},
        std::tuple{Quantity::kPrice, "$.10", "invalid value '$.10'"},
        std::tuple{Quantity::kPrice, "$$2", "invalid value '$$2'"},
        std::tuple{Quantity::kPrice, "2.10/h", "invalid value '2.10/h'"},
        std::tuple{Quantity::kPrice, "nan", "invalid value 'nan'"}}) {
    const auto parsed = ParseQuantity(quantity, text);
    if (*says == '\0') {
      EXPECT_TRUE(parsed.ok()) << parsed.status();
      continue;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(says)) << text;
  }
}

TEST(Units, NoUnitIsListedTwiceAndEachIsItsFactor) {
  std::set<std::pair<Quantity, std::string_view>> known;
  for (const Unit& unit : Units()) {
    EXPECT_TRUE(known.emplace(unit.quantity, unit.suffix).second) << unit.suffix;
    if (unit.quantity == Quantity::kPrice) continue;
    EXPECT_DOUBLE_EQ(*ParseQuantity(unit.quantity, "2" + std::string(unit.suffix)), 2 * unit.factor)
        << unit.suffix;
  }
}

TEST(Units, BareNumbersHaveNone) {
  for (const char* text : {"", "8", "8.5", "1e3"}) EXPECT_FALSE(HasUnit(text)) << text;
  for (const char* text : {"8k", "$8", "x", "8 "}) EXPECT_TRUE(HasUnit(text)) << text;
}

TEST(Units, ValuesAreShownInTheBaseUnit) {
  EXPECT_EQ(QuantityText(Quantity::kSequenceLength, 8192), "8,192 tokens");
  EXPECT_EQ(QuantityText(Quantity::kTokens, 1e12), "1,000,000,000,000 tokens");
  EXPECT_EQ(QuantityText(Quantity::kBytesPerSecond, 25e9), "25 GB/s");
  EXPECT_EQ(QuantityText(Quantity::kSeconds, 5400), "1 h 30 min");
  EXPECT_EQ(QuantityText(Quantity::kBytes, 80e9), "80,000,000,000 bytes");
  EXPECT_EQ(QuantityText(Quantity::kPrice, 2.1), "2.10 a GPU-hour, in any currency");
  EXPECT_EQ(PriceText(0.0125), "0.0125 a GPU-hour");
}

}  // namespace
}  // namespace autocfg::base
