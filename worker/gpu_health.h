// Whether GPUs are free for a job: what a job before it took must be given back, or the next one's figures
// are not its own. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

namespace autocfg {

// How long the memory of a job that has ended may take to come back.
inline constexpr std::chrono::seconds kGpuPatience{10};

// Waits until the GPUs of these uuids are as free as an idle GPU is, for `patience` at most; ends early, as
// if they were, once `cancel` is true. Empty when they are; else one line: which GPU, how many bytes are
// missing, which processes hold them where the driver tells. A GPU that the driver does not know any more is
// said, too.
std::string WaitForFreeGpus(const std::vector<std::string>& uuids, std::chrono::duration<double> patience,
                            const std::atomic<bool>* cancel);

}  // namespace autocfg
