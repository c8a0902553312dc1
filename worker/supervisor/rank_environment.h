// What a rank inherits of the supervisor's environment. Pure functions, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autocfg::worker {

// Returns whether a rank of the built-in engine inherits the variable: what its libraries, profilers, the
// dynamic loader and the locale read, and AUTOCFG_*. Other variables of a worker or a user may be secrets.
bool RanksInherit(std::string_view name);

// Returns whether no process of a job inherits the variable: it says how the worker shows who it is.
bool IsOfWorkerAlone(std::string_view name);

// Returns the environment of a process, each as NAME=value: that of `own` which it inherits, with `added`,
// whose names override equal ones. `foreign`: it belongs to another engine, which inherits everything but
// what is the worker's alone.
std::vector<std::string> RankEnvironment(const char* const* own, const std::vector<std::string>& added,
                                         bool foreign);

}  // namespace autocfg::worker
