#include "base/os/process_limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <system_error>

#include "tests/support/temp_dir.h"

namespace autocfg::base {
namespace {

// Limits belong to the process, so each test changes those of a child. It exits with 0 if the test passed.
using testing::ExitedWithCode;

TEST(DescriptorLimit, IsRaisedToTheHardLimit) {
  const auto child = [] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    limit.rlim_max = 200;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (DescriptorLimit() != 64) std::_Exit(1);
    if (RaiseDescriptorLimit() != 200) std::_Exit(2);
    if (RaiseDescriptorLimit() != 200) std::_Exit(3);  // nothing is left to raise
    std::_Exit(::dup2(STDERR_FILENO, 199) == 199 ? 0 : 4);
  };
  EXPECT_EXIT(child(), ExitedWithCode(0), "");
}

TEST(FileSizeLimit, FailsTheWriteAndNotTheProcess) {
  const TempDir dir;
  const std::string path = dir.File("f");
  const auto child = [&path] {
    const rlimit limit{.rlim_cur = 10, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    FailWritesBeyondFileSizeLimit();
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    if (::write(fd, "0123456789abcde", 15) != 10) std::_Exit(1);
    errno = 0;
    std::_Exit(::write(fd, "abcde", 5) == -1 && errno == EFBIG ? 0 : 2);
  };
  EXPECT_EXIT(child(), ExitedWithCode(0), "");
}

TEST(TryThreads, ReportsThatThereAreTooFew) {
  EXPECT_FALSE(TryThreads(20));
  const auto child = [] {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{1} << 46);  // more than the machine can address in all
    pthread_setattr_default_np(&attributes);
    std::_Exit(TryThreads(4) == std::errc::resource_unavailable_try_again ? 0 : 1);
  };
  EXPECT_EXIT(child(), ExitedWithCode(0), "");
}

}  // namespace
}  // namespace autocfg::base
