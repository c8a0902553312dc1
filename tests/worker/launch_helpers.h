// Shared by the launcher's tests: jobs for the fake trainer, and process checks.
#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/build_paths.h"
#include "worker/launcher/process_launcher.h"

namespace autocfg::worker {

inline std::string FakeTrainerPath() { return BuildPath("tests/fake_trainer"); }

// One rank per mode (tests/worker/fake_trainer.cc).
inline JobRequest FakeJob(const std::vector<std::string>& modes) {
  JobRequest request;
  for (std::size_t rank = 0; rank < modes.size(); ++rank) {
    auto& spec = request.ranks.emplace_back();
    spec.set_rank(static_cast<int>(rank));
    spec.set_world_size(static_cast<int>(modes.size()));
    spec.set_device("cpu");
    spec.mutable_train()->mutable_model()->set_name(modes[rank]);
    spec.mutable_train()->set_steps(1);
  }
  request.time_limit = std::chrono::seconds(60);
  return request;
}

// Returns the text of /proc/PID/stat after the process's name: "STATE PARENT ..."; empty if there is no such
// process.
inline std::string StatOf(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? "" : text.substr(end + 2);
}

// Returns the state letter of a process; 0 if there is no such process.
inline char ProcessState(int pid) {
  const std::string stat = StatOf(pid);
  return stat.empty() ? '\0' : stat.front();
}

// Returns the parent of a process; -1 if there is no such process.
inline pid_t ParentOf(int pid) {
  const std::string stat = StatOf(pid);
  return stat.empty() ? -1 : std::atoi(stat.c_str() + 2);
}

// True if the process is alive. Zombies do not count: if the parent died too, they may remain for a while.
inline bool Runs(int pid) {
  const char state = ProcessState(pid);
  return state != '\0' && state != 'Z' && state != 'X';
}

// Returns true if all end within `limit`.
inline bool AllEndWithin(const std::vector<int>& pids, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    bool any = false;
    for (int pid : pids) any = any || Runs(pid);
    if (!any) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Returns what a process may leave behind: UCX's POSIX shared-memory segments and all System V segments.
inline std::vector<std::string> SharedMemory() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().find("ucx") != std::string::npos)
      found.push_back(entry.path().string());
  }
  std::ifstream segments("/proc/sysvipc/shm");
  std::string line;
  std::getline(segments, line);  // the heading
  for (std::string key, id; segments >> key >> id; std::getline(segments, line))
    found.push_back("segment " + id);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace autocfg::worker
