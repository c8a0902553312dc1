// What the system says of the machine and of this process's surroundings. Thread-safe, as long as nobody
// changes the environment meanwhile.
#pragma once

#include <string>

namespace autocfg {

// A variable of the environment; empty where it is not set.
std::string Environment(const char* name);

// As gethostname(2) has it; empty where it does not tell.
std::string HostName();

// Tells the running kernel, and so the machine whose CPUs it numbers, from all others: the same in every
// container on it. The host's name where the kernel does not tell.
std::string KernelId();

}  // namespace autocfg
