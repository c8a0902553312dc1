// A file whose time of change says when the loops of a service last went on, for supervisors that can only
// run a command: a probe of Kubernetes, a cron job.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/service/loop_watch.h"

namespace autocfg::base {

class HeartbeatFile {
 public:
  ~HeartbeatFile();  // removes the file
  HeartbeatFile() = default;
  HeartbeatFile(const HeartbeatFile&) = delete;
  HeartbeatFile& operator=(const HeartbeatFile&) = delete;

  // Names the file and removes what an earlier process left there. Errors if no file can be written there.
  absl::Status Prepare(const std::string& path);

  // Writes the file, and from now on again whenever all loops have made a round, at most once a second. Logs,
  // once, if it cannot. No effect unless prepared. `rounds`: see LoopWatchOptions.
  void Start(std::function<std::vector<LoopRounds>()> rounds);

 private:
  void Beat();

  std::string path_;
  bool failed_ = false;  // logged
  std::unique_ptr<LoopWatch> watch_;
};

}  // namespace autocfg::base
