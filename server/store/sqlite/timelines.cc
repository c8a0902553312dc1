// The timelines of the fastest plans of a study.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/convert/step_timeline.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {

void SqliteStore::KeepTimeline(std::int64_t study, std::int64_t trial, double median_step_time_s,
                               const std::vector<EndedShare>& shares) {
  std::vector<v1::StepTimeline> parts;
  for (const EndedShare& share : shares) {
    if (share.timeline) parts.push_back(*share.timeline);
  }
  if (parts.empty()) return;
  Execute("INSERT OR REPLACE INTO timelines VALUES (?, ?, ?, ?)", study, trial, median_step_time_s,
          MergeTimelines(parts));
  Execute(
      R"sql(
        WITH
          timed AS
            (SELECT l.trial, l.median_step_time_s,
                    ROW_NUMBER() OVER (PARTITION BY t.plan_text ORDER BY l.trial DESC) AS nth
             FROM timelines l
             JOIN trials t ON t.study = l.study AND t.number = l.trial
             WHERE l.study = ?1),
          kept AS
            (SELECT trial FROM timed WHERE nth = 1 ORDER BY median_step_time_s, trial LIMIT ?2)
        DELETE FROM timelines
        WHERE study = ?1 AND trial NOT IN (SELECT trial FROM kept))sql",
      study, kTimelinePlans);
}

absl::StatusOr<std::optional<Store::TrialTimeline>> SqliteStore::FindTimeline(std::int64_t study,
                                                                              const std::string& plan_text) {
  return Read([&]() -> absl::StatusOr<std::optional<TrialTimeline>> {
    if (absl::Status status = CheckStudy(study); !status.ok()) return status;
    SQLite::Statement row = Query(
        R"sql(
          SELECT l.trial, t.repeat, l.timeline
          FROM timelines l
          JOIN trials t ON t.study = l.study AND t.number = l.trial
          WHERE l.study = ? AND t.plan_text = ?)sql",
        study, plan_text);
    if (!row.executeStep()) return std::nullopt;
    TrialTimeline found{
        .trial = row.getColumn(0).getInt64(), .repeat = row.getColumn(1).getInt64(), .timeline = {}};
    Parse(row.getColumn(2), found.timeline);
    return found;
  });
}

}  // namespace autocfg::server
