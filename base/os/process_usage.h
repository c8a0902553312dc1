// What the process uses of its machine, as the kernel accounts for it.
#pragma once

#include <cstdint>
#include <optional>

namespace autocfg::base {

struct ProcessUsage {
  double start_time_s = 0;  // Unix time
  double cpu_s = 0;         // of all threads, in user and system mode
  std::int64_t resident_bytes = 0;
  std::int64_t virtual_bytes = 0;
  std::int64_t descriptors = 0;  // open ones
  std::uint64_t most_descriptors = 0;
};

// Returns what the calling process uses; nothing if /proc cannot be read. Thread-safe.
std::optional<ProcessUsage> ReadProcessUsage();

// Reads the text of /proc/PID/stat. `ticks`: clock ticks in a second; `page`: bytes of a page. The start time
// is in seconds since the machine booted. Descriptors are not in it. Returns nothing for other texts.
std::optional<ProcessUsage> ParseProcessStat(const char* text, double ticks, std::int64_t page);

}  // namespace autocfg::base
