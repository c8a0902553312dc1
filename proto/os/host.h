// What the system says of the machine and of this process's surroundings. Thread-safe, as long as nobody
// changes the environment meanwhile.
#pragma once

#include <string>

namespace autocfg {

// A variable of the environment; empty where it is not set.
std::string Environment(const char* name);

// As gethostname(2) has it; empty where it does not tell.
std::string HostName();

}  // namespace autocfg
