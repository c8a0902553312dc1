// What a study that is followed lacks, said once each time that it changes, where no progress is drawn. Use
// from one thread.
#pragma once

#include <string>
#include <utility>

#include "autocfg/v1/study_service.pb.h"

namespace autocfg {

class WatchNotes {
 public:
  explicit WatchNotes(std::string target) : target_(std::move(target)) {}
  // Why its work waits, that it is paused, that the coordinator does not answer.
  void Say(const v1::Study& study, bool away);

 private:
  const std::string target_;
  std::string waiting_;
  bool away_ = false;
  bool paused_ = false;
};

}  // namespace autocfg
