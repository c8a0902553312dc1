// Identity of this autocfg build. Every measurement carries it, so that results of different builds stay
// separate. Thread-safe.
#pragma once

#include <string>

namespace autocfg::base {

// Returns the project's version, "0.1.0".
std::string Version();

// Returns version and source revision, "0.1.0+3001fe9c7a21". Appends "-dirty" for an edited checkout; without
// git, the revision is "unknown".
std::string BuildId();

}  // namespace autocfg::base
