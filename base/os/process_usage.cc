#include "base/os/process_usage.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "base/os/process_limits.h"

namespace autocfg::base {
namespace {

std::optional<std::string> ReadAll(const char* path) {
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.empty()) return std::nullopt;
  return text;
}

// Returns the Unix time of the machine's boot.
std::optional<double> BootTime() {
  const auto text = ReadAll("/proc/stat");
  if (!text) return std::nullopt;
  constexpr const char* kName = "\nbtime ";
  const std::size_t at = text->find(kName);
  long long seconds = 0;
  if (at == std::string::npos || std::sscanf(text->c_str() + at + std::strlen(kName), "%lld", &seconds) != 1)
    return std::nullopt;
  return static_cast<double>(seconds);
}

}  // namespace

std::optional<ProcessUsage> ParseProcessStat(const char* text, double ticks, std::int64_t page) {
  // The second field is the program's name in parentheses, which may have any character.
  const char* name_end = std::strrchr(text, ')');
  if (name_end == nullptr) return std::nullopt;
  unsigned long long user = 0, system = 0, start = 0, bytes = 0;
  long long pages = 0;
  // proc(5): fields 3 to 13 are skipped; 14 and 15 are CPU times; 22 to 24 are start time, memory, pages.
  const int read =
      std::sscanf(name_end + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d "
                  "%llu %llu %lld",
                  &user, &system, &start, &bytes, &pages);
  if (read != 5) return std::nullopt;
  ProcessUsage usage;
  usage.cpu_s = (static_cast<double>(user) + static_cast<double>(system)) / ticks;
  usage.start_time_s = static_cast<double>(start) / ticks;
  usage.virtual_bytes = static_cast<std::int64_t>(bytes);
  usage.resident_bytes = pages * page;
  return usage;
}

std::optional<ProcessUsage> ReadProcessUsage() {
  const auto stat = ReadAll("/proc/self/stat");
  const auto boot_s = BootTime();
  if (!stat || !boot_s) return std::nullopt;
  auto usage =
      ParseProcessStat(stat->c_str(), static_cast<double>(::sysconf(_SC_CLK_TCK)), ::sysconf(_SC_PAGESIZE));
  if (!usage) return std::nullopt;
  usage->start_time_s += *boot_s;
  std::error_code error;
  for (std::filesystem::directory_iterator each("/proc/self/fd", error), end; !error && each != end;
       each.increment(error))
    ++usage->descriptors;
  if (error) return std::nullopt;
  usage->most_descriptors = DescriptorLimit();
  return usage;
}

}  // namespace autocfg::base
