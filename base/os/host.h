// Queries about the machine and the process environment. Thread-safe unless the environment changes
// concurrently.
#pragma once

#include <string>

namespace autocfg::base {

// Returns the environment variable `name`; empty if unset.
std::string Environment(const char* name);

// Returns the result of gethostname(2); empty on failure.
std::string HostName();

// Returns an ID of the running kernel, and so of the machine that numbers the CPUs. All containers on a
// machine share it. Falls back to the host name if the kernel provides none.
std::string KernelId();

}  // namespace autocfg::base
