// The child processes of this process: those that it started, and those that a subreaper inherits. Use from
// one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace autocfg::worker {

// Returns the pids of this process's children, zombies included. A child that appears or ends meanwhile may
// be missing.
std::vector<pid_t> Children();

// The two ways in which Children finds them; for tests. The first returns nullopt if the kernel does not list
// the children of a process (CONFIG_PROC_CHILDREN); the second reads the status of every process.
std::optional<std::vector<pid_t>> ListedChildren();
std::vector<pid_t> ScannedChildren();

// Returns the pids of the children's descendants too, and stops above `most` pids. Processes that appear, end
// or change their parent meanwhile may be missing.
std::vector<pid_t> AllDescendants(std::size_t most);

struct EndLimits {
  std::chrono::milliseconds terminate;  // from SIGTERM to SIGKILL; 0: SIGKILL at once
  std::chrono::milliseconds kill;       // from there until this process gives up
};

struct EndedChildren {
  int signalled = 0;             // children that a signal was sent to
  std::vector<pid_t> remaining;  // that have not ended
};

// Ends all children and reaps them; then their own children, which this process inherits if it is a
// subreaper; and so on, until there are none. `wait` sleeps for some milliseconds, at most until a child
// ends.
EndedChildren EndChildren(const EndLimits& limits, const std::function<void()>& wait);

}  // namespace autocfg::worker
