#include "base/os/host.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>

namespace autocfg::base {
namespace {

TEST(Environment, UnsetVariableIsEmpty) {
  EXPECT_EQ(Environment("AUTOCFG_NO_SUCH_VARIABLE"), "");
  setenv("AUTOCFG_NO_SUCH_VARIABLE", "there", 1);
  EXPECT_EQ(Environment("AUTOCFG_NO_SUCH_VARIABLE"), "there");
  unsetenv("AUTOCFG_NO_SUCH_VARIABLE");
}

TEST(KernelId, IsOneWord) {
  const std::string id = KernelId();
  EXPECT_FALSE(id.empty());
  EXPECT_EQ(id.find_first_of(" \n"), std::string::npos) << id;
  EXPECT_EQ(KernelId(), id);
}

TEST(SteadyClock, BeginsWithTheSystemsTimeAndGoesOn) {
  const Clock steady = SteadyClock();
  EXPECT_NEAR(steady(), SystemClock()(), 60) << "the test's machine stepped its clock";
  const double before = steady();
  const double elsewhere = SteadyClock()();
  EXPECT_GE(elsewhere, before) << "all its users have one clock";
  EXPECT_LT(elsewhere - before, 60);
}

TEST(RandomId, IsUnique) {
  const std::string id = RandomId();
  EXPECT_EQ(id.size(), 32u);
  for (const char c : id) EXPECT_TRUE(std::isxdigit(static_cast<unsigned char>(c)) != 0) << id;
  EXPECT_NE(RandomId(), id);
}

}  // namespace
}  // namespace autocfg::base
