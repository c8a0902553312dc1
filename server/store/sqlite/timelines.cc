// The timelines of the fastest plans of a study.
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "proto/convert/step_timeline.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {

// A doubted trial is far too fast, so the slowest trial of a plan tells its time.
void Store::Impl::KeepTimeline(std::int64_t study, std::int64_t trial,
                               const std::vector<EndedShare>& shares) {
  std::vector<v1::StepTimeline> parts;
  for (const EndedShare& share : shares) {
    if (share.timeline) parts.push_back(*share.timeline);
  }
  if (parts.empty()) return;
  // Chosen before it is written: most timelines of a study are not kept, and they are large.
  const std::set<std::int64_t> kept = FastestTimelines(study, trial);
  DropTimelinesBut(study, kept);
  if (kept.contains(trial))
    Execute("INSERT OR REPLACE INTO timelines VALUES (?, ?, ?)", study, trial, MergeTimelines(parts));
}

void Store::Impl::DropSlowTimelines(std::int64_t study) {
  DropTimelinesBut(study, FastestTimelines(study, 0));
}

std::set<std::int64_t> Store::Impl::FastestTimelines(std::int64_t study, std::int64_t trial) {
  const auto fastest = All<std::int64_t>(
      R"sql(
        WITH
          newest AS
            (SELECT t.plan_text, MAX(t.number) AS trial
             FROM trials t
             WHERE t.study = ?1
                 AND t.number IN (SELECT l.trial FROM timelines l WHERE l.study = ?1 UNION ALL SELECT ?3)
             GROUP BY t.plan_text)
        SELECT n.trial
        FROM newest n
        ORDER BY
          (SELECT MAX(IFNULL(m.median_step_time_s, t.source_s))
           FROM trials t
           LEFT JOIN jobs j ON j.study = t.study AND j.trial = t.number
           LEFT JOIN measurements m ON m.job = j.id
           WHERE t.study = ?1 AND t.plan_text = n.plan_text),
          n.trial
        LIMIT ?2)sql",
      study, kTimelinePlans, trial);
  return {fastest.begin(), fastest.end()};
}

void Store::Impl::DropTimelinesBut(std::int64_t study, const std::set<std::int64_t>& kept) {
  for (const std::int64_t trial : All<std::int64_t>("SELECT trial FROM timelines WHERE study = ?", study)) {
    if (!kept.contains(trial)) Execute("DELETE FROM timelines WHERE study = ? AND trial = ?", study, trial);
  }
}

absl::StatusOr<std::optional<Store::TrialTimeline>> Store::FindTimeline(std::int64_t study,
                                                                        const std::string& plan_text) {
  return impl_->Read([&]() -> absl::StatusOr<std::optional<TrialTimeline>> {
    AUTOCFG_RETURN_IF_ERROR(impl_->CheckStudy(study));
    auto row = impl_->Rows<std::int64_t, std::int64_t, v1::StepTimeline>(
        R"sql(
          SELECT l.trial, t.repeat, l.timeline
          FROM timelines l
          JOIN trials t ON t.study = l.study AND t.number = l.trial
          WHERE l.study = ? AND t.plan_text = ?)sql",
        study, plan_text);
    if (auto found = row.Next()) return Make<TrialTimeline>(*std::move(found));
    return std::nullopt;
  });
}

}  // namespace autocfg::server
