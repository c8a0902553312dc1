// Reports each change in what keeps a followed study from progressing. Used if no progress display is drawn.
// Use from one thread.
#pragma once

#include <string>
#include <utility>

#include "cli/study/study_watcher.h"

namespace autocfg::cli {

class WatchNotes {
 public:
  explicit WatchNotes(std::string target) : target_(std::move(target)) {}
  // Reports why the study's work waits, that it is paused, or that the coordinator does not answer or rejects
  // the stream.
  void Say(StudyWatcher& watcher);

 private:
  const std::string target_;
  std::string waiting_;
  std::string refused_;
  bool away_ = false;
  bool paused_ = false;
};

}  // namespace autocfg::cli
