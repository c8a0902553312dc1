// Adds the CPU time that this thread spends in a scope to a counter, in seconds.
#pragma once

#include <time.h>

namespace autocfg::server {

class ThreadCpuTimer {
 public:
  explicit ThreadCpuTimer(double& total) : total_(total), start_(Now()) {}
  ~ThreadCpuTimer() { total_ += Now() - start_; }
  ThreadCpuTimer(const ThreadCpuTimer&) = delete;
  ThreadCpuTimer& operator=(const ThreadCpuTimer&) = delete;

 private:
  static double Now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  double& total_;
  double start_;
};

}  // namespace autocfg::server
