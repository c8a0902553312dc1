#include "base/numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace autocfg::base {
namespace {

TEST(ParseNumber, ReadsTheWholeText) {
  EXPECT_EQ(ParseNumber<int>("-12"), -12);
  EXPECT_EQ(ParseNumber<std::int64_t>("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(ParseNumber<std::uint64_t>("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(ParseNumber<double>("-1.5e-3"), -1.5e-3);
  EXPECT_EQ(ParseNumber<double>("5."), 5);
  for (const char* const wrong : {"", " 1", "1 ", "+1", "1x", "0x10", "1,000", "-", "1.5", "1e3"})
    EXPECT_EQ(ParseNumber<int>(wrong), std::nullopt) << wrong;
  for (const char* const wrong : {"", " 1", "1 ", "+1", "1x", "1e", "--1", "."})
    EXPECT_EQ(ParseNumber<double>(wrong), std::nullopt) << wrong;
}

TEST(ParseNumber, RejectsWhatIsOutOfRange) {
  EXPECT_EQ(ParseNumber<int>("2147483648"), std::nullopt);
  EXPECT_EQ(ParseNumber<int>("64", 1, 64), 64);
  EXPECT_EQ(ParseNumber<int>("65", 1, 64), std::nullopt);
  EXPECT_EQ(ParseNumber<int>("0", 1), std::nullopt);
  EXPECT_EQ(ParseNumber<int>("-0", 0), std::nullopt);  // no sign where nothing below 0 is in range
  EXPECT_EQ(ParseNumber<std::uint64_t>("-1"), std::nullopt);
  for (const char* const wrong : {"nan", "inf", "-inf", "1e400"})
    EXPECT_EQ(ParseNumber<double>(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace autocfg::base
