#include "worker/launcher/job_allowance.h"

#include "worker/machine/inventory.h"

namespace autocfg::worker {

JobLimits LimitsOf(const JobAllowance& allowance, int ranks) {
  constexpr std::int64_t kPercent = 95;
  return {.processes = allowance.processes > 0 ? allowance.processes : kProcessesPerRank * ranks,
          .memory_bytes =
              allowance.memory_bytes > 0 ? allowance.memory_bytes : MemoryLimitBytes() / 100 * kPercent};
}

}  // namespace autocfg::worker
