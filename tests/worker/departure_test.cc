#include "worker/jobs/departure.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

#include "tests/support/temp_dir.h"

namespace autocfg::worker {
namespace {

using testing::HasSubstr;
using testing::Optional;

TEST(ParseDeparture, ReadsTimesAndDurations) {
  constexpr double kNow = 1'700'000'000;
  const auto read = [](std::string_view text) { return ParseDeparture(text, kNow).value_or(-1); };
  EXPECT_EQ(read("2023-11-14T22:13:20Z"), 1'700'000'000);
  EXPECT_EQ(read("2023-11-14T23:13:20.5+01:00"), 1'700'000'000.5);
  EXPECT_EQ(read("1700003600"), 1'700'003'600);
  EXPECT_EQ(read("2h"), kNow + 7200);
  EXPECT_EQ(read("1h30m"), kNow + 5400);
  EXPECT_EQ(read("90"), kNow + 90);
  for (const char* wrong : {"", "soon", "-5", "2023-11-14", "2023-11-14 22:13:20", "1e99", "infinite-future",
                            "nan", "99999999999999999999", "2h x", "1700003600s"}) {
    const auto parsed = ParseDeparture(wrong, kNow);
    ASSERT_FALSE(parsed.ok()) << wrong << " is " << *parsed;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("'" + std::string(wrong) + "' is no time"));
  }
  EXPECT_EQ(std::string(ParseDeparture("a\nb", kNow).status().message()).find('\n'), std::string::npos);
}

class DepartureTest : public testing::Test {
 protected:
  Departure Make(DepartureOptions options) {
    return Departure(std::move(options), [this] { return now_s_; });
  }
  // Writes the notice, as changed at this Unix time.
  void Notice(const std::string& text, std::int64_t changed_s) const {
    std::ofstream(file_) << text;
    const timespec times[] = {{changed_s, 0}, {changed_s, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file_.c_str(), times, 0), 0);
  }

  TempDir dir_;
  const std::string file_ = dir_.File("notice");
  double now_s_ = 1'700'000'000;
};

TEST_F(DepartureTest, WithoutATimeThereIsNoEnd) {
  Departure departure = Make({});
  EXPECT_EQ(departure.SecondsForJobs(), std::nullopt);
  EXPECT_FALSE(departure.MustEndJobs());
  EXPECT_FALSE(departure.has_file());
}

TEST_F(DepartureTest, JobsEndBeforeTheGraceTime) {
  Departure departure = Make({.at_s = 1'700'000'100, .grace_s = 30});
  EXPECT_THAT(departure.SecondsForJobs(), Optional(70.0));
  EXPECT_FALSE(departure.MustEndJobs());
  now_s_ += 75;
  EXPECT_THAT(departure.SecondsForJobs(), Optional(0.0));
  EXPECT_FALSE(departure.MustEndJobs()) << "those that run may end";
  now_s_ += 15;
  EXPECT_TRUE(departure.MustEndJobs()) << "a third of the grace time is left";
  now_s_ += 1000;
  EXPECT_THAT(departure.SecondsForJobs(), Optional(0.0));
  EXPECT_TRUE(departure.MustEndJobs());
}

TEST_F(DepartureTest, ANoticeMayComeAndChange) {
  Departure departure = Make({.file = file_, .grace_s = 10});
  EXPECT_TRUE(departure.has_file());
  EXPECT_EQ(departure.SecondsForJobs(), std::nullopt) << "there is no file";
  Notice(" \n", 1'700'000'000);
  EXPECT_EQ(departure.SecondsForJobs(), std::nullopt);
  Notice("who knows\n", 1'700'000'001);
  EXPECT_EQ(departure.SecondsForJobs(), std::nullopt) << "no time";
  Notice("2m\n", 1'700'000'000);
  now_s_ += 20;
  EXPECT_THAT(departure.SecondsForJobs(), Optional(90.0)) << "it counts from when it was written";
  Notice("1700000050", 1'700'000'020);
  EXPECT_THAT(departure.SecondsForJobs(), Optional(20.0));
  std::remove(file_.c_str());
  EXPECT_THAT(departure.SecondsForJobs(), Optional(20.0)) << "the notice stands";
}

TEST_F(DepartureTest, TheEarlierOfTwoTimesCounts) {
  Departure departure = Make({.at_s = 1'700'000'100, .file = file_, .grace_s = 0});
  EXPECT_THAT(departure.SecondsForJobs(), Optional(100.0));
  Notice("1700000400", 1'700'000'000);
  EXPECT_THAT(departure.SecondsForJobs(), Optional(100.0));
  Notice("1700000040", 1'700'000'001);
  EXPECT_THAT(departure.SecondsForJobs(), Optional(40.0));
}

}  // namespace
}  // namespace autocfg::worker
