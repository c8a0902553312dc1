#include "cli/input/option_values.h"

#include <gtest/gtest.h>

namespace autocfg::cli {
namespace {

TEST(Numbers, Whole) {
  EXPECT_EQ(*ParseWhole("--n", "1"), 1);
  EXPECT_EQ(*ParseWhole("--n", "2147483647"), kMaxSize);
  EXPECT_EQ(*ParseWhole("--n", "0", 0), 0);
  for (const char* bad : {"", "0", "-1", "+3", " 3", "3 ", "3.0", "1e3", "0x10", "2147483648",
                          "99999999999999999999", "nan", "ten"}) {
    const auto status = ParseWhole("--n", bad).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_NE(status.message().find("--n"), std::string::npos) << status;
    EXPECT_NE(status.message().find("from 1 to"), std::string::npos) << status;
  }
}

TEST(UnitNotes, SayWhatIsNotSaidAlready) {
  std::vector<std::string> notes;
  AddUnitNote("--time-budget", base::Quantity::kSeconds, "20s", notes);
  AddUnitNote("--time-budget", base::Quantity::kSeconds, "20 s", notes);
  AddUnitNote("--time-budget", base::Quantity::kSeconds, "20", notes);
  EXPECT_EQ(notes, std::vector<std::string>());
  AddUnitNote("--seq-len", base::Quantity::kSequenceLength, "8k", notes);
  EXPECT_EQ(notes, std::vector<std::string>{"--seq-len: 8k is 8,192 tokens"});
}

TEST(Numbers, Seed) {
  EXPECT_EQ(*ParseSeed("--seed", "18446744073709551615"), 18446744073709551615ULL);
  for (const char* bad : {"", "-1", "18446744073709551616", "1.5"})
    EXPECT_FALSE(ParseSeed("--seed", bad).ok()) << bad;
}

TEST(Numbers, Real) {
  EXPECT_EQ(*ParseReal("--lr", "3e-4", 0, 1), 3e-4);
  EXPECT_EQ(*ParseReal("--lr", "0", 0, 1), 0);
  for (const char* bad : {"", "nan", "inf", "-inf", "-1", "1.5", "1e400", "0.1x", "1,5"}) {
    EXPECT_FALSE(ParseReal("--lr", bad, 0, 1).ok()) << bad;
  }
}

TEST(Numbers, Share) {
  EXPECT_DOUBLE_EQ(*ParseShare("--margin", "5%"), 0.05);
  EXPECT_EQ(*ParseShare("--margin", "0.05"), 0.05);
  EXPECT_EQ(*ParseShare("--margin", "0"), 0);
  EXPECT_EQ(*ParseShare("--margin", "0%"), 0);
  EXPECT_DOUBLE_EQ(*ParseShare("--margin", "99.9%"), 0.999);
  for (const char* bad : {"", "%", "-1%", "-0.1", "1", "100%", "5%%", "5 %", "nan", "nan%", "inf", "five"}) {
    const auto status = ParseShare("--margin", bad).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_NE(status.message().find("--margin: invalid value"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace autocfg::cli
