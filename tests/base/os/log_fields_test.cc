#include "base/os/log_fields.h"

#include <gtest/gtest.h>

#include <thread>

namespace autocfg::base {
namespace {

TEST(LogScope, InnerFieldsHideOuterOnesUntilTheyEnd) {
  EXPECT_EQ(LogScope::Current().worker, "");
  const LogScope outer({.study = "studies/1", .worker = "workers/a"});
  {
    const LogScope inner({.study = "studies/2", .trial = "studies/2/trials/3"});
    EXPECT_EQ(LogScope::Current().study, "studies/2");
    EXPECT_EQ(LogScope::Current().trial, "studies/2/trials/3");
    EXPECT_EQ(LogScope::Current().worker, "workers/a");
    const LogScope innermost({.lease = "l", .trace = "t"});
    EXPECT_EQ(LogScope::Current().lease, "l");
    EXPECT_EQ(LogScope::Current().trace, "t");
    EXPECT_EQ(LogScope::Current().trial, "studies/2/trials/3");
  }
  EXPECT_EQ(LogScope::Current().study, "studies/1");
  EXPECT_EQ(LogScope::Current().trial, "");
  EXPECT_EQ(LogScope::Current().trace, "");
}

TEST(LogScope, IsOfItsThreadAlone) {
  const LogScope mine({.study = "studies/1"});
  std::string other = "not run";
  std::thread([&] { other = LogScope::Current().study; }).join();
  EXPECT_EQ(other, "");
}

}  // namespace
}  // namespace autocfg::base
