// The log of a program.
#pragma once

#include <string>

#include "spdlog/common.h"

namespace autocfg {

// The process's log goes to standard error, each line behind the program's name, from `level` on, or from
// what AUTOCFG_LOG in the environment says: trace, debug, info, warn, error, critical or off. Another word is
// said to be none, and changes nothing. Before there are other threads.
void SetUpLog(const std::string& program, spdlog::level::level_enum level);

}  // namespace autocfg
