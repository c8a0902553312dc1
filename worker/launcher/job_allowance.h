// What a worker allows the processes of each of its jobs to take. Thread-safe.
#pragma once

#include <cstdint>

#include "worker/supervisor/orders.h"

namespace autocfg::worker {

// Far more than a rank starts: those of frameworks start tens of processes that load data or compile.
inline constexpr std::int64_t kProcessesPerRank = 1024;
inline constexpr std::int64_t kMostProcessesAllowed = 1 << 22;  // Linux has no more
inline constexpr std::int64_t kLeastMemoryAllowed = 1 << 20;
inline constexpr std::int64_t kMostMemoryAllowed = std::int64_t{1} << 50;

struct JobAllowance {
  std::int64_t processes = 0;  // 0: kProcessesPerRank for each rank
  // 0: 95% of MemoryLimitBytes, whatever the job's share of the slots is. Plans of few ranks may rightly take
  // 80% of it (LocalCluster), and less would end jobs that the machine can run.
  std::int64_t memory_bytes = 0;
};

// Returns the limits of a job with so many ranks here.
JobLimits LimitsOf(const JobAllowance& allowance, int ranks);

}  // namespace autocfg::worker
