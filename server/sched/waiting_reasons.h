// The reasons why studies wait for workers, as users see them. A reading of the queue is a snapshot: it also
// contains jobs that are about to start, and the numbers in a sentence change with every job that ends. So a
// study is shown to wait for busy workers only if the same job waits in two readings. While the kind of
// reason stays the same, its sentence changes at most every 10 s. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/sched/parked_calls.h"
#include "server/store/records.h"

namespace autocfg::server {

class WaitingReasons {
 public:
  // Takes the newest reading. Returns the studies whose sentence has changed.
  std::vector<std::int64_t> Update(const std::vector<WaitingStudy>& waiting, SteadyTime now);
  // A job of the study has started. Returns true if the study's sentence has changed (to none).
  bool Started(std::int64_t study);

  std::string Find(std::int64_t study) const;  // empty: it does not wait
  // Returns true if another reading of an unchanged queue would change a sentence, now or later.
  bool unsettled() const { return unsettled_; }

 private:
  struct Entry {
    WaitingStudy newest;
    std::string sentence;  // empty: not shown yet
    SteadyTime since;      // of the sentence
  };
  std::map<std::int64_t, Entry> studies_;
  bool unsettled_ = false;
};

}  // namespace autocfg::server
