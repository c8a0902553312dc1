// The network interface that the ranks of jobs on several hosts use. UCX, NCCL and Gloo take every interface
// that is up, and connect over one that the other hosts do not reach. Thread-safe, except SetVariables.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace autocfg::worker {

struct InterfaceAddress {
  std::string interface, address;
};

// Returns the addresses of the interfaces that are up: IPv4 addresses, then IPv6 ones. Omits link-local IPv6
// addresses, which say nothing without their interface.
std::vector<InterfaceAddress> InterfaceAddresses();

// Returns the interface that has the address; empty if none is up that does.
std::string InterfaceOf(const std::string& address);

// Returns the interface's first address. NotFound, with the machine's interfaces, if none of that name is up
// with an address.
absl::StatusOr<std::string> AddressOf(const std::string& interface);

// Returns the ports of the machine's RDMA devices as UCX names them ("mlx5_0:1"), in order. `root` is
// prefixed to /sys; "" except in tests.
std::vector<std::string> RdmaPorts(const std::string& root = "");

using Variables = std::vector<std::pair<std::string, std::string>>;

// Returns the environment of processes that communicate over the interface. UCX also keeps the RDMA ports:
// they are faster, and do not depend on the interface.
Variables InterfaceVariables(const std::string& interface, const std::vector<std::string>& rdma_ports);

// Sets the variables that this process's environment does not have. Call it while there is one thread.
void SetVariables(const Variables& variables);

}  // namespace autocfg::worker
