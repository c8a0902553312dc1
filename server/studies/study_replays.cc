#include "server/studies/study_replays.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_search.h"

namespace autocfg::server {

absl::StatusOr<StudyReplays::Found> StudyReplays::Find(std::int64_t study) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto cursor, store_.ChangeCursor(study));
  Found found{.cursor = cursor, .answer = {}};
  absl::MutexLock lock(&mutex_);
  if (const auto at = kept_.find(study); at != kept_.end() && at->second.cursor == cursor) {
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
  AUTOCFG_ASSIGN_OR_RETURN(const auto stored, store_.GetStudy(study));
  AUTOCFG_ASSIGN_OR_RETURN(const auto problem, ParseSearchSpec(stored.spec()));
  AUTOCFG_ASSIGN_OR_RETURN(auto outcomes, StoredOutcomes::Load(store_, study));
  AUTOCFG_ASSIGN_OR_RETURN(auto search, StudySearch::Create(problem, {.watch = watch}));
  AUTOCFG_RETURN_IF_ERROR(search.Drive(outcomes));
  v1::Recommendation answer = search.Recommendation();
  absl::MutexLock lock(&mutex_);
  kept_[study] = {known->cursor, ++uses_, answer};
  if (kept_.size() > kKept) {
    kept_.erase(std::min_element(kept_.begin(), kept_.end(),
                                 [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  return answer;
}

}  // namespace autocfg::server
