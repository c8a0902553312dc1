// Checks that GPUs are free before a job starts. Memory still held by an earlier job would distort the next
// job's measurements. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

namespace autocfg::worker {

// Time allowed for the memory of an ended job to be released.
inline constexpr std::chrono::seconds kGpuPatience{10};

// Waits up to `patience` until the GPUs with these UUIDs are as free as idle GPUs. Returns early, as if they
// were free, once `cancel` is true. Returns an empty string on success; else one line that names the GPU, the
// missing bytes and, if the driver reports them, the processes that hold them. A GPU unknown to the driver is
// an error too.
std::string WaitForFreeGpus(const std::vector<std::string>& uuids, std::chrono::duration<double> patience,
                            const std::atomic<bool>* cancel);

}  // namespace autocfg::worker
