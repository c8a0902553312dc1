// Which build of autocfg this is. Every measurement carries it, so that figures of different builds are not
// mixed up. Thread-safe.
#pragma once

#include <string>

namespace autocfg {

// The project's version, "0.1.0".
std::string Version();

// Version and source revision, "0.1.0+3001fe9c7a21" ("-dirty" behind it for an edited checkout, "+unknown"
// without git).
std::string BuildId();

}  // namespace autocfg
