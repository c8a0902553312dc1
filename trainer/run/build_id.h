// The build id of the engine. Thread-safe.
#pragma once

#include <string>

namespace autocfg {

// Returns the version and source revision, in the same form as the worker's BuildId.
std::string TrainerBuildId();

}  // namespace autocfg
