#include "server/studies/study_replays.h"

#include <algorithm>
#include <utility>

#include "server/studies/search_problem.h"
#include "server/studies/study_search.h"

namespace autocfg::server {

absl::StatusOr<StudyReplays::Found> StudyReplays::Find(std::int64_t study) {
  const auto cursor = store_.ChangeCursor(study);
  if (!cursor.ok()) return cursor.status();
  Found found{.cursor = *cursor, .answer = {}};
  absl::MutexLock lock(&mutex_);
  if (const auto at = kept_.find(study); at != kept_.end() && at->second.cursor == *cursor) {
    at->second.used = ++uses_;
    found.answer = at->second.answer;
  }
  return found;
}

absl::StatusOr<v1::Recommendation> StudyReplays::Recommend(std::int64_t study, const PlanningWatch& watch) {
  auto known = Find(study);
  if (!known.ok()) return known.status();
  if (known->answer) return *std::move(known->answer);
  const std::optional<PlanningGate::Place> place = gate_.Enter(watch);
  if (!place) return PlanningStopped({});
  known = Find(study);  // others may have computed it meanwhile
  if (!known.ok()) return known.status();
  if (known->answer) return *std::move(known->answer);
  const auto stored = store_.GetStudy(study);
  if (!stored.ok()) return stored.status();
  const auto problem = ParseSearchSpec(stored->spec());
  if (!problem.ok()) return problem.status();
  auto outcomes = StoredOutcomes::Load(store_, study);
  if (!outcomes.ok()) return outcomes.status();
  auto search = StudySearch::Create(*problem, {.watch = watch});
  if (!search.ok()) return search.status();
  if (absl::Status status = search->Drive(*outcomes); !status.ok()) return status;
  v1::Recommendation answer = search->Recommendation();
  absl::MutexLock lock(&mutex_);
  kept_[study] = {known->cursor, ++uses_, answer};
  if (kept_.size() > kKept) {
    kept_.erase(std::min_element(kept_.begin(), kept_.end(),
                                 [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  return answer;
}

}  // namespace autocfg::server
