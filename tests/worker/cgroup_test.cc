#include "worker/machine/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;

class CgroupTest : public testing::Test {
 protected:
  CgroupTest()
      : root_(fs::path(testing::TempDir()) /
              ("cgroup_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
               std::to_string(::getpid()))) {
    fs::remove_all(root_);
  }
  ~CgroupTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  CgroupLimits Read() const { return ReadCgroupLimits(root_.string()); }

  const fs::path root_;
};

TEST_F(CgroupTest, MissingFilesMeanNoLimit) {
  const auto limits = Read();
  EXPECT_FALSE(limits.cpus);
  EXPECT_FALSE(limits.memory_bytes);
}

TEST_F(CgroupTest, VersionTwoTakesTheTightestOfAllLevels) {
  Write("proc/self/cgroup", "0::/jobs/one");
  Write("sys/fs/cgroup/jobs/one/cpu.max", "max 100000");
  Write("sys/fs/cgroup/jobs/cpu.max", "250000 100000");
  Write("sys/fs/cgroup/jobs/one/memory.max", "8589934592");
  Write("sys/fs/cgroup/jobs/memory.max", "1073741824");
  EXPECT_EQ(Read().cpus, 2.5);
  EXPECT_EQ(Read().memory_bytes, 1073741824);
}

TEST_F(CgroupTest, ContainerSeesItsGroupAsTheRoot) {
  Write("proc/self/cgroup", "0::/system.slice/container-that-is-not-mounted");
  Write("sys/fs/cgroup/cpu.max", "400000 100000");
  Write("sys/fs/cgroup/memory.max", "max");
  EXPECT_EQ(Read().cpus, 4);
  EXPECT_FALSE(Read().memory_bytes);
}

TEST_F(CgroupTest, VersionOne) {
  Write("proc/self/cgroup", "4:memory:/a\n2:cpu,cpuacct:/a/b\n1:cpuset:/");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648");
  Write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "150000");
  Write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000");
  Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1");
  Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Read().cpus, 1.5);
  EXPECT_EQ(Read().memory_bytes, 2147483648);
}

TEST_F(CgroupTest, MalformedFilesMeanNoLimit) {
  Write("proc/self/cgroup", "nonsense\n0::/x");
  Write("sys/fs/cgroup/x/cpu.max", "many 100000");
  Write("sys/fs/cgroup/x/memory.max", "");
  EXPECT_FALSE(Read().cpus);
  EXPECT_FALSE(Read().memory_bytes);
}

}  // namespace
}  // namespace autocfg::worker
