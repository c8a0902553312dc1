// Log setup of a program.
#pragma once

#include <string>

#include "spdlog/common.h"

namespace autocfg::base {

// Sends the process's log to standard error, each line prefixed with the program's name. Logs from `level`
// on, or from the level in the environment variable AUTOCFG_LOG: trace, debug, info, warn, error, critical or
// off. Logs an error and keeps `level` if the value is unknown. Call before other threads start.
void SetUpLog(const std::string& program, spdlog::level::level_enum level);

}  // namespace autocfg::base
