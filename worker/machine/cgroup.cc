#include "worker/machine/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include "fmt/format.h"

namespace autocfg::worker {
namespace {

std::optional<std::string> ReadFirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::int64_t> ReadNumber(const std::string& path) {
  const auto line = ReadFirstLine(path);
  if (!line) return std::nullopt;
  std::istringstream stream(*line);
  std::int64_t value = 0;
  if (!(stream >> value)) return std::nullopt;  // "max": no limit
  return value;
}

template <typename T>
void Tighten(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

void ReadGroup2(const std::string& dir, CgroupLimits& limits) {
  if (const auto line = ReadFirstLine(dir + "/cpu.max")) {
    std::istringstream stream(*line);
    double quota = 0;
    double period = 0;
    if (stream >> quota >> period && quota > 0 && period > 0) Tighten(limits.cpus, quota / period);
  }
  if (const auto bytes = ReadNumber(dir + "/memory.max"); bytes && *bytes > 0)
    Tighten(limits.memory_bytes, *bytes);
}

void ReadCpuGroup1(const std::string& dir, CgroupLimits& limits) {
  const auto quota = ReadNumber(dir + "/cpu.cfs_quota_us");
  const auto period = ReadNumber(dir + "/cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) {
    Tighten(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  }
}

void ReadMemoryGroup1(const std::string& dir, CgroupLimits& limits) {
  const auto bytes = ReadNumber(dir + "/memory.limit_in_bytes");
  if (bytes && *bytes > 0) Tighten(limits.memory_bytes, *bytes);
}

// Calls `read` for mount + path and for each parent directory up to the mount.
template <typename Read>
void Climb(const std::string& mount, std::string path, CgroupLimits& limits, Read read) {
  while (!path.empty() && path != "/") {
    read(mount + path, limits);
    path.erase(path.find_last_of('/'));
  }
  read(mount, limits);
}

bool HasWord(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root) {
  CgroupLimits limits;
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/a/b", version 2: "0::/a/b"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      Climb(mount, path, limits, ReadGroup2);
      Climb(mount + "/unified", path, limits, ReadGroup2);
    } else {
      if (HasWord(controllers, "cpu")) {
        Climb(fmt::format("{}/{}", mount, controllers), path, limits, ReadCpuGroup1);
        Climb(mount + "/cpu", path, limits, ReadCpuGroup1);
      }
      if (HasWord(controllers, "memory")) Climb(mount + "/memory", path, limits, ReadMemoryGroup1);
    }
  }
  return limits;
}

}  // namespace autocfg::worker
