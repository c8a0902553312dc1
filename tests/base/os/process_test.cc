#include "base/os/process.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/os/host.h"
#include "spdlog/spdlog.h"

namespace autocfg::base {
namespace {

// Returns what a program writes with AUTOCFG_LOG=`asked` and a default level of `info`.
std::string Written(const char* asked) {
  const std::string before_asked = Environment("AUTOCFG_LOG");
  setenv("AUTOCFG_LOG", asked, 1);
  const auto before = spdlog::default_logger();
  testing::internal::CaptureStderr();
  SetUpLog("program", LogLevel::kInfo);
  spdlog::debug("a debug line");
  spdlog::info("an info line");
  spdlog::error("an error");
  spdlog::set_default_logger(before);
  setenv("AUTOCFG_LOG", before_asked.c_str(), 1);
  return testing::internal::GetCapturedStderr();
}

TEST(SetUpLog, EnvironmentSetsTheLevel) {
  const std::string debug = "program: a debug line\n", info = "program: an info line\n",
                    error = "program: an error\n";
  EXPECT_EQ(Written(""), info + error);
  EXPECT_EQ(Written("info"), info + error);
  EXPECT_EQ(Written("debug"), debug + info + error);
  EXPECT_EQ(Written("warn"), error);
  EXPECT_EQ(Written("error"), error);
  EXPECT_EQ(Written("off"), "");
  EXPECT_EQ(Written("loud"),
            "program: AUTOCFG_LOG: unknown level 'loud'; expected trace, debug, info, warn, error, critical "
            "or off\n" +
                info + error);
}

}  // namespace
}  // namespace autocfg::base
