// What a study that is followed lacks, said once each time that it changes, where no progress is drawn. Use
// from one thread.
#pragma once

#include <string>
#include <utility>

#include "cli/study_watcher.h"

namespace autocfg {

class WatchNotes {
 public:
  explicit WatchNotes(std::string target) : target_(std::move(target)) {}
  // Why its work waits, that it is paused, that the coordinator does not answer or takes no stream.
  void Say(StudyWatcher& watcher);

 private:
  const std::string target_;
  std::string waiting_;
  std::string refused_;
  bool away_ = false;
  bool paused_ = false;
};

}  // namespace autocfg
