// The stream of WatchStudy. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "autocfg/v1/study_service.pb.h"
#include "server/sched/notifier.h"
#include "server/store/store.h"

namespace autocfg {

struct Watcher {
  std::function<bool(const v1::StudyEvent&)> send;  // false: the caller is gone
  std::function<bool()> gone;
  std::function<absl::Status()> error;   // why the study gets no further, though it is RUNNING
  std::function<std::string()> waiting;  // why its work waits (Study.waiting); the notifier tells of changes
};

// Sends what changed after `resume_cursor` (0: all), then each change as it happens, until the study has
// ended and all of it was sent. An event has the study as it is and, where a trial changed, that trial; its
// cursor is one to resume from. Where only the reason changed why work waits, the cursor is that of the event
// before. Unavailable when the notifier is closed.
absl::Status Watch(Store& store, Notifier& notifier, std::int64_t study, std::int64_t resume_cursor,
                   const Watcher& watcher);

}  // namespace autocfg
