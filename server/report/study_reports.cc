#include "server/report/study_reports.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "server/report/report_json.h"
#include "server/report/study_report.h"

namespace autocfg::server {

absl::StatusOr<std::shared_ptr<const StudyReports::Report>> StudyReports::Find(std::int64_t study) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto cursor, store_.ChangeCursor(study));
  absl::MutexLock lock(&mutex_);
  const auto at = kept_.find(study);
  if (at == kept_.end() || at->second.report->cursor != cursor) return std::shared_ptr<const Report>();
  at->second.used = ++uses_;
  return at->second.report;
}

absl::StatusOr<std::shared_ptr<const StudyReports::Report>> StudyReports::Get(std::int64_t study,
                                                                              const PlanningWatch& watch) {
  auto known = Find(study);
  if (!known.ok() || *known != nullptr) return known;
  const std::optional<PlanningGate::Place> place = gate_.Enter(watch);
  if (!place) return PlanningStopped({});
  known = Find(study);  // others may have made it meanwhile
  if (!known.ok() || *known != nullptr) return known;
  // What changes meanwhile raises the cursor, so that the report is made again.
  AUTOCFG_ASSIGN_OR_RETURN(const auto cursor, store_.ChangeCursor(study));
  AUTOCFG_ASSIGN_OR_RETURN(auto gathered, GatherReport(store_, study, watch));
  AUTOCFG_ASSIGN_OR_RETURN(auto json, ReportJson(gathered));
  auto report = std::make_shared<const Report>(
      Report{.cursor = cursor, .title = ReportTitle(gathered), .json = std::move(json)});
  absl::MutexLock lock(&mutex_);
  kept_[study] = {++uses_, report};
  if (kept_.size() > kKept) {
    kept_.erase(std::min_element(kept_.begin(), kept_.end(),
                                 [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  return report;
}

}  // namespace autocfg::server
