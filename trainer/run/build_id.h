// Which build of the engine this is. Thread-safe.
#pragma once

#include <string>

namespace autocfg {

// Version and source revision, as the worker's BuildId says it of itself.
std::string TrainerBuildId();

}  // namespace autocfg
