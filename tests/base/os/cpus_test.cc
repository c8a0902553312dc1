// Simulates kernels of machines with more CPUs than a fixed cpu_set_t holds.
#include "base/os/cpus.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <system_error>

namespace autocfg::base {
namespace {

// Simulates the kernel of a machine with `cpus` CPUs, which rejects smaller masks.
GetAffinity Machine(int cpus, const std::vector<int>& allowed, std::vector<std::size_t>* sizes = nullptr) {
  return [=](std::size_t bytes, cpu_set_t* mask) {
    if (sizes != nullptr) sizes->push_back(bytes);
    if (bytes * 8 < static_cast<std::size_t>(cpus)) {
      errno = EINVAL;
      return -1;
    }
    for (const int cpu : allowed) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, mask);
    return 0;
  };
}

TEST(AllowedCpus, GrowsMaskUntilItFitsTheMachine) {
  std::vector<std::size_t> sizes;
  EXPECT_EQ(AllowedCpus(Machine(64, {0, 63}, &sizes)), (std::vector<int>{0, 63}));
  EXPECT_EQ(sizes, (std::vector<std::size_t>{128}));
  sizes.clear();
  EXPECT_EQ(AllowedCpus(Machine(3000, {1023, 1024, 2999}, &sizes)), (std::vector<int>{1023, 1024, 2999}));
  EXPECT_EQ(sizes, (std::vector<std::size_t>{128, 256, 512}));
  EXPECT_EQ(AllowedCpus(Machine(kMostCpus, {kMostCpus - 1})), std::vector<int>{kMostCpus - 1});
}

TEST(AllowedCpus, ReportsOtherErrors) {
  const auto words = [](const GetAffinity& get) -> std::string {
    try {
      AllowedCpus(get);
      return "";
    } catch (const std::system_error& error) {
      return error.what();
    }
  };
  const std::string no_right = words([](std::size_t, cpu_set_t*) {
    errno = EPERM;
    return -1;
  });
  EXPECT_EQ(no_right, "cannot determine which CPUs may be used: Operation not permitted");
  EXPECT_NE(words(Machine(2 * kMostCpus, {0})), "") << "more than any machine has";
  EXPECT_NE(words([](std::size_t, cpu_set_t*) { return 0; }), "") << "none at all";
}

TEST(AllowedCpus, ReflectRunOnCpus) {
  const std::vector<int> before = AllowedCpus();
  ASSERT_FALSE(before.empty());
  RunOnCpus({before.back()});
  EXPECT_EQ(AllowedCpus(), std::vector<int>{before.back()});
  RunOnCpus(before);
  EXPECT_EQ(AllowedCpus(), before);
  if (before.back() < 5000) {
    EXPECT_THROW(RunOnCpus({5000}), std::system_error);
    RunOnCpus({before.front(), 5000});  // the kernel ignores CPU numbers that the machine does not have
    RunOnCpus(before);
  }
}

TEST(CpuList, RoundTrips) {
  for (const char* text : {"0", "0,1", "7,3,1031,8191"}) {
    const auto cpus = ParseCpuList(text);
    ASSERT_TRUE(cpus) << text;
    EXPECT_EQ(CpuListText(*cpus), text);
  }
  EXPECT_EQ(*ParseCpuList("1024,2000"), (std::vector<int>{1024, 2000}));
  for (const char* bad :
       {"", ",", "0,", ",0", "0,,1", "-1", "+1", "0-3", "8192", "99999999999", "one", "0 1"})
    EXPECT_FALSE(ParseCpuList(bad)) << bad;
}

}  // namespace
}  // namespace autocfg::base
