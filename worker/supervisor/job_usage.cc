#include "worker/supervisor/job_usage.h"

#include <unistd.h>

#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace autocfg::worker {
namespace {

std::string FileOf(pid_t process, const char* name) {
  return "/proc/" + std::to_string(process) + "/" + name;
}

// /proc/PID/statm has pages: all, resident, resident and shared (of files or shared memory), and others.
std::int64_t PrivateBytesOf(pid_t process) {
  std::ifstream file(FileOf(process, "statm"));
  std::int64_t all = 0;
  std::int64_t resident = 0;
  std::int64_t shared = 0;
  if (!(file >> all >> resident >> shared) || resident <= shared) return 0;
  return (resident - shared) * ::sysconf(_SC_PAGESIZE);
}

// Returns the anonymous part of a process's proportional set size.
std::optional<std::int64_t> ProportionalBytesOf(pid_t process) {
  std::ifstream file(FileOf(process, "smaps_rollup"));
  for (std::string word; file >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "Pss_Anon:" && file >> kibibytes) return kibibytes << 10;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace

std::int64_t PrivateBytes(const std::vector<pid_t>& processes) {
  std::int64_t bytes = 0;
  for (const pid_t process : processes) bytes += PrivateBytesOf(process);
  return bytes;
}

std::int64_t PrivateBytesCountedOnce(const std::vector<pid_t>& processes) {
  std::int64_t bytes = 0;
  for (const pid_t process : processes) {
    const std::optional<std::int64_t> proportional = ProportionalBytesOf(process);
    bytes += proportional ? *proportional : PrivateBytesOf(process);
  }
  return bytes;
}

}  // namespace autocfg::worker
