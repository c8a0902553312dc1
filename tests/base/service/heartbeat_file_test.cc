#include "base/service/heartbeat_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "tests/support/temp_dir.h"

namespace autocfg::base {
namespace {

using testing::HasSubstr;

class HeartbeatFileTest : public testing::Test {
 protected:
  void Old() const {
    std::filesystem::last_write_time(path_, std::filesystem::file_time_type::min() + std::chrono::hours(1));
  }
  std::filesystem::file_time_type Time() const { return std::filesystem::last_write_time(path_); }
  void AwaitLooks(std::uint64_t count) const {
    const std::uint64_t target = looks_ + count;
    while (looks_ < target) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  TempDir dir_;
  const std::string path_ = dir_.File("heartbeat");
  std::atomic<std::uint64_t> looks_ = 0;
  std::atomic<std::uint64_t> rounds_ = 0;
  std::atomic<bool> stuck_ = false;
};

TEST_F(HeartbeatFileTest, ChangesOnlyWhileTheLoopGoesOn) {
  std::ofstream(path_) << "of an earlier process";
  {
    HeartbeatFile file;
    ASSERT_TRUE(file.Prepare(path_).ok());
    EXPECT_FALSE(std::filesystem::exists(path_)) << "nothing goes on yet";
    file.Start([&]() -> std::vector<LoopRounds> {
      ++looks_;
      if (!stuck_) ++rounds_;
      return {{"loop", rounds_}};
    });
    EXPECT_TRUE(std::filesystem::exists(path_)) << "at once";
    Old();
    const auto old = Time();
    AwaitLooks(3);
    EXPECT_NE(Time(), old);
    stuck_ = true;
    AwaitLooks(2);  // the last round may still be told of
    Old();
    AwaitLooks(2);
    EXPECT_EQ(Time(), old);
  }
  EXPECT_FALSE(std::filesystem::exists(path_)) << "its process has ended";
}

TEST_F(HeartbeatFileTest, WhatCannotBeWrittenIsNamed) {
  HeartbeatFile file;
  EXPECT_THAT(std::string(file.Prepare(dir_.File("no/file")).message()),
              HasSubstr("no/file cannot be written: No such file or directory"));
  EXPECT_THAT(std::string(file.Prepare(dir_.path().string()).message()), HasSubstr("is not a file"));
  std::filesystem::create_symlink("target", path_);
  EXPECT_THAT(std::string(file.Prepare(path_).message()), HasSubstr("is not a file"));
  file.Start([]() -> std::vector<LoopRounds> {
    ADD_FAILURE() << "no file is named";
    return {};
  });
}

}  // namespace
}  // namespace autocfg::base
