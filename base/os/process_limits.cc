#include "base/os/process_limits.h"

#include <sys/resource.h>

#include <csignal>
#include <latch>
#include <thread>
#include <vector>

namespace autocfg::base {
namespace {

// getrlimit cannot fail: the resource is valid and the pointer is ours.
rlimit OfDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

}  // namespace

std::uint64_t RaiseDescriptorLimit() {
  rlimit limit = OfDescriptors();
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    // Fails only if the hard limit exceeds what the system allows now; the soft limit then stays.
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return DescriptorLimit();
}

std::uint64_t DescriptorLimit() { return OfDescriptors().rlim_cur; }

void FailWritesBeyondFileSizeLimit() { std::signal(SIGXFSZ, SIG_IGN); }

std::error_code TryThreads(int count) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  std::error_code error;
  std::latch over(1);  // until then, all threads exist at once
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&over] { over.wait(); });
  } catch (const std::system_error& failed) {
    error = failed.code();
  }
  over.count_down();
  for (std::thread& thread : threads) thread.join();
  return error;
}

}  // namespace autocfg::base
