#include "base/os/process_usage.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>

namespace autocfg::base {
namespace {

// Fields as in proc(5): 14 and 15 are 300 and 50 ticks, 22 is 12345 ticks, 23 bytes, 24 pages.
constexpr const char* kAfterName =
    " S 1 2 3 4 5 6 7 8 9 10 300 50 11 12 20 0 7 0 12345 1048576 25 18446744073709551615 1 1";

TEST(ProcessUsage, IsReadBehindANameOfAnyCharacters) {
  for (const char* name : {"42 (autocfg-server)", "42 (a) S 9 (b c)", "42 ())"}) {
    const auto usage = ParseProcessStat((std::string(name) + kAfterName).c_str(), 100, 4096);
    ASSERT_TRUE(usage) << name;
    EXPECT_EQ(usage->cpu_s, 3.5);
    EXPECT_EQ(usage->start_time_s, 123.45);
    EXPECT_EQ(usage->virtual_bytes, 1048576);
    EXPECT_EQ(usage->resident_bytes, 25 * 4096);
  }
  for (const char* wrong : {"", "42", "42 (name", "42 (name)", "42 (name) S 1 2 3"})
    EXPECT_FALSE(ParseProcessStat(wrong, 100, 4096)) << wrong;
}

TEST(ProcessUsage, OfThisProcessIsPlausible) {
  const auto usage = ReadProcessUsage();
  ASSERT_TRUE(usage);
  EXPECT_GT(usage->resident_bytes, 1 << 20);
  EXPECT_GE(usage->virtual_bytes, usage->resident_bytes);
  EXPECT_GE(usage->descriptors, 3);
  EXPECT_GE(usage->most_descriptors, static_cast<std::uint64_t>(usage->descriptors));
  EXPECT_GE(usage->cpu_s, 0);
  const auto now_s = static_cast<double>(std::time(nullptr));
  EXPECT_GT(usage->start_time_s, 1e9);
  EXPECT_LE(usage->start_time_s, now_s + 60)
      << "the boot time is rounded, and NTP may have set the clock since";
}

}  // namespace
}  // namespace autocfg::base
