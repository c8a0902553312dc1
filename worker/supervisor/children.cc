#include "worker/supervisor/children.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

#include "base/numbers.h"

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;

// Returns the parent in the text of /proc/PID/stat: "PID (name) state parent ...". 0 if it is not such a
// text.
pid_t ParentIn(const std::string& stat) {
  const std::size_t name_end = stat.rfind(')');  // a name may contain parentheses
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  char state = 0;
  pid_t parent = 0;
  return fields >> state >> parent ? parent : 0;
}

// Returns the children of a process ("self" or a pid); nullopt if the kernel does not list them, or the
// process has ended.
std::optional<std::vector<pid_t>> ListedChildrenOf(const std::string& process) {
  std::vector<pid_t> children;
  std::error_code error;
  bool listed = false;
  for (fs::directory_iterator thread("/proc/" + process + "/task", error), end; !error && thread != end;
       thread.increment(error)) {
    std::ifstream list(thread->path() / "children");
    if (!list) continue;  // not listed, or the thread has ended
    listed = true;
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  if (!listed) return std::nullopt;
  return children;
}

// Returns all processes by their parents.
std::multimap<pid_t, pid_t> ScannedProcesses() {
  std::multimap<pid_t, pid_t> processes;
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const auto pid = base::ParseNumber<pid_t>(process->path().filename().string());
    if (!pid) continue;
    std::ifstream file(process->path() / "stat");
    std::string stat;
    std::getline(file, stat, '\0');
    if (const pid_t parent = ParentIn(stat); parent != 0) processes.emplace(parent, *pid);
  }
  return processes;
}

// Reaps all zombies among the children. Returns false if there are no children at all.
bool Reap() {
  for (;;) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid == 0) return true;
    if (pid < 0 && errno != EINTR) return false;
  }
}

}  // namespace

std::optional<std::vector<pid_t>> ListedChildren() { return ListedChildrenOf("self"); }

std::vector<pid_t> ScannedChildren() {
  const std::multimap<pid_t, pid_t> all = ScannedProcesses();
  std::vector<pid_t> children;
  const auto [from, to] = all.equal_range(::getpid());
  for (auto child = from; child != to; ++child) children.push_back(child->second);
  return children;
}

std::vector<pid_t> AllDescendants(std::size_t most) {
  std::optional<std::vector<pid_t>> listed = ListedChildren();
  const std::multimap<pid_t, pid_t> all = listed ? std::multimap<pid_t, pid_t>() : ScannedProcesses();
  std::vector<pid_t> found = listed ? *std::move(listed) : ScannedChildren();
  for (std::size_t next = 0; next < found.size() && found.size() <= most; ++next) {
    std::vector<pid_t> children;
    if (all.empty()) {
      children = ListedChildrenOf(std::to_string(found[next])).value_or(std::vector<pid_t>());
    } else {
      const auto [from, to] = all.equal_range(found[next]);
      for (auto child = from; child != to; ++child) children.push_back(child->second);
    }
    found.insert(found.end(), children.begin(), children.end());
  }
  return found;
}

std::vector<pid_t> Children() {
  if (auto listed = ListedChildren()) return *std::move(listed);
  return ScannedChildren();
}

// Only children are signalled: no other process can get the pid of a child that this process has not reaped.
EndedChildren EndChildren(const EndLimits& limits, const std::function<void()>& wait) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point kill_from = Clock::now() + limits.terminate;
  const Clock::time_point end = kill_from + limits.kill;
  std::set<pid_t> terminated;
  std::set<pid_t> killed;
  while (Reap()) {
    const Clock::time_point now = Clock::now();
    const std::vector<pid_t> children = Children();
    if (now >= end) {
      terminated.merge(killed);
      return {static_cast<int>(terminated.size()), children};
    }
    for (const pid_t child : children) {
      if (now >= kill_from) {
        ::kill(child, SIGKILL);
        killed.insert(child);
      } else if (terminated.insert(child).second) {
        ::kill(child, SIGTERM);
        ::kill(child, SIGCONT);  // a stopped process receives SIGTERM only then
      }
    }
    wait();
  }
  terminated.merge(killed);
  return {static_cast<int>(terminated.size()), {}};
}

}  // namespace autocfg::worker
