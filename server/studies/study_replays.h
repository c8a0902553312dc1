// Recommendations of studies that nobody runs: recomputed from the stored outcomes. Few are computed at once,
// whoever asks, and the latest are kept until their study changes. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "autocfg/v1/study_service.pb.h"
#include "search/planner/planning.h"
#include "server/store/store.h"
#include "server/studies/planning_gate.h"

namespace autocfg::server {

class StudyReplays {
 public:
  // The store must outlive it.
  explicit StudyReplays(Store& store, int at_once = 1) : store_(store), gate_(at_once) {}

  // Returns the study's recommendation, as StudySearch::Recommendation does. Waits for its turn. Cancelled
  // once `watch` says no. Other errors: those of the store and of the study's specification.
  absl::StatusOr<v1::Recommendation> Recommend(std::int64_t study, const PlanningWatch& watch);

 private:
  static constexpr std::size_t kKept = 16;
  struct Found {
    std::int64_t cursor = 0;  // of the study now
    std::optional<v1::Recommendation> answer;
  };
  absl::StatusOr<Found> Find(std::int64_t study) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Kept {
    std::int64_t cursor = 0;  // of the study when it was computed
    std::uint64_t used = 0;   // the greater, the later
    v1::Recommendation answer;
  };

  Store& store_;
  PlanningGate gate_;
  absl::Mutex mutex_;
  std::map<std::int64_t, Kept> kept_ ABSL_GUARDED_BY(mutex_);  // by study
  std::uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace autocfg::server
