#include "proto/rpc/duration.h"

#include <gtest/gtest.h>

#include <string>

namespace autocfg {
namespace {

absl::StatusOr<double> Parse(const char* text) { return ParseDuration("--wait", text, 0, kYearSeconds); }

TEST(Duration, ParsesSecondsAndUnits) {
  for (const auto& [text, seconds] : {std::pair<const char*, double>{"90", 90},
                                      {"90s", 90},
                                      {"10m", 600},
                                      {"1.5h", 5400},
                                      {"0", 0},
                                      {"0.2", 0.2},
                                      {"500ms", 0.5},
                                      {"1h30m", 5400},
                                      {"1m30s", 90},
                                      {"2s500ms", 2.5},
                                      {"100us", 1e-4},
                                      {"1ns", 1e-9},
                                      {".5s", 0.5},
                                      {"1e3", 1000},
                                      {"8760h", kYearSeconds}}) {
    const auto parsed = Parse(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_DOUBLE_EQ(*parsed, seconds) << text;
  }
}

TEST(Duration, ErrorNamesOptionAndBounds) {
  for (const char* bad : {"", "m", "-1", "-1m", "+1", "10w", "10 m", " 10", "10 ", "nan", "inf", "infh",
                          "1e300h", "1e999", "mm", "1m30", "1h-30m", "8761h", "90S"}) {
    const absl::Status status = Parse(bad).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_NE(status.message().find("--wait: '" + std::string(bad) + "' is not a time from 0 to 8760h; give"),
              std::string::npos)
        << status;
  }
  EXPECT_FALSE(ParseDuration("--lease-duration", "0.09", 0.1, 3600).ok());
  EXPECT_TRUE(ParseDuration("--lease-duration", "0.1", 0.1, 3600).ok());
  EXPECT_TRUE(ParseDuration("--lease-duration", "1h", 0.1, 3600).ok());
  EXPECT_NE(ParseDuration("--lease-duration", "61m", 0.1, 3600).status().message().find("from 100ms to 1h;"),
            std::string::npos);
}

}  // namespace
}  // namespace autocfg
