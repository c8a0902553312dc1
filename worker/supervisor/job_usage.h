// What the processes of a job take, as /proc says. Processes that have ended count as nothing. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace autocfg::worker {

// Returns the bytes of anonymous memory that the processes have in RAM. Memory that they share since a fork,
// because neither has written to it, counts for each of them. Reads one line a process.
std::int64_t PrivateBytes(const std::vector<pid_t>& processes);

// Same, but such memory counts once. The kernel walks all pages of a process for it, which takes up to a
// second for 100 GB and holds up what allocates meanwhile. A process that the kernel does not let this one
// look into counts as in PrivateBytes.
std::int64_t PrivateBytesCountedOnce(const std::vector<pid_t>& processes);

}  // namespace autocfg::worker
