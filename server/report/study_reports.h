// The reports of studies, for whoever asks: few are made at once, and the latest are kept until their study
// changes. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "search/planner/planning.h"
#include "server/store/store.h"
#include "server/studies/planning_gate.h"

namespace autocfg::server {

class StudyReports {
 public:
  // The store must outlive it.
  explicit StudyReports(Store& store, int at_once = 1) : store_(store), gate_(at_once) {}

  struct Report {
    std::int64_t cursor = 0;  // of the study when it was made
    std::string title;
    std::string json;  // report_json.h
  };

  // Returns the report of the study as it is now. Waits for its turn. Errors: those of GatherReport.
  absl::StatusOr<std::shared_ptr<const Report>> Get(std::int64_t study, const PlanningWatch& watch);

 private:
  static constexpr std::size_t kKept = 8;
  // Returns the kept report if the study has not changed since, else null.
  absl::StatusOr<std::shared_ptr<const Report>> Find(std::int64_t study) ABSL_LOCKS_EXCLUDED(mutex_);
  struct Kept {
    std::uint64_t used = 0;  // the greater, the later
    std::shared_ptr<const Report> report;
  };

  Store& store_;
  PlanningGate gate_;
  absl::Mutex mutex_;
  std::map<std::int64_t, Kept> kept_ ABSL_GUARDED_BY(mutex_);  // by study
  std::uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace autocfg::server
