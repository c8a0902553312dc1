#include "base/os/host.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

namespace autocfg::base {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string HostName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

std::string KernelId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? HostName() : id;
}

}  // namespace autocfg::base
