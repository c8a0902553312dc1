// Limits that the system sets for the whole process: descriptors, sizes of files, threads. For the start of a
// program.
#pragma once

#include <cstdint>
#include <system_error>

namespace autocfg::base {

// Raises the soft limit on open descriptors to the hard limit, and returns the soft limit that holds
// afterwards. Programs started later inherit it. Thread-safe.
std::uint64_t RaiseDescriptorLimit();

// Returns the soft limit on open descriptors: every descriptor has a smaller number. Thread-safe.
std::uint64_t DescriptorLimit();

// Makes writes beyond the file size limit (ulimit -f) fail with EFBIG. By default they end the process with
// SIGXFSZ. Call before other threads start.
void FailWritesBeyondFileSizeLimit();

// Tries whether the system lets the process have `count` more threads at once. Returns its reason if not.
// Thread-safe.
std::error_code TryThreads(int count);

}  // namespace autocfg::base
