#include "worker/machine/network_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>

#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "spdlog/spdlog.h"

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;

// Returns the text of an IPv4 address, or of an IPv6 address that is not link-local; else an empty text.
std::string AddressText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    if (!IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr)) ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
  }
  return text;
}

std::vector<std::string> SortedNamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<InterfaceAddress> InterfaceAddresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    spdlog::warn("cannot list this machine's network interfaces: {}", std::strerror(errno));
    return found;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family || (one->ifa_flags & IFF_UP) == 0)
        continue;
      if (std::string text = AddressText(one->ifa_addr); !text.empty())
        found.push_back({one->ifa_name, std::move(text)});
    }
  }
  return found;
}

std::string InterfaceOf(const std::string& address) {
  for (InterfaceAddress& one : InterfaceAddresses()) {
    if (one.address == address) return std::move(one.interface);
  }
  return "";
}

absl::StatusOr<std::string> AddressOf(const std::string& interface) {
  std::set<std::string> names;
  for (InterfaceAddress& one : InterfaceAddresses()) {
    if (one.interface == interface) return std::move(one.address);
    names.insert(base::Printable(one.interface));
  }
  return absl::NotFoundError(fmt::format("no network interface '{}' is up with an address; expected {}",
                                         base::Printable(interface), fmt::join(names, ", ")));
}

std::vector<std::string> RdmaPorts(const std::string& root) {
  const fs::path devices = root + "/sys/class/infiniband";
  std::vector<std::string> ports;
  for (const std::string& device : SortedNamesIn(devices)) {
    for (const std::string& port : SortedNamesIn(devices / device / "ports"))
      ports.push_back(fmt::format("{}:{}", device, port));
  }
  return ports;
}

Variables InterfaceVariables(const std::string& interface, const std::vector<std::string>& rdma_ports) {
  std::vector<std::string> devices = rdma_ports;
  devices.push_back(interface);
  return {{"UCX_NET_DEVICES", fmt::format("{}", fmt::join(devices, ","))},
          {"NCCL_SOCKET_IFNAME", "=" + interface},  // '=': not as a prefix
          {"GLOO_SOCKET_IFNAME", interface}};
}

void SetVariables(const Variables& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
}

}  // namespace autocfg::worker
