#include "server/sched/waiting_reasons.h"

#include <utility>

namespace autocfg::server {
namespace {

constexpr std::chrono::seconds kSentenceLasts{10};

}  // namespace

std::vector<std::int64_t> WaitingReasons::Update(const std::vector<WaitingStudy>& waiting, SteadyTime now) {
  std::map<std::int64_t, Entry> before = std::exchange(studies_, {});
  std::vector<std::int64_t> changed;
  unsettled_ = false;
  for (const WaitingStudy& each : waiting) {
    const std::int64_t study = each.job.study;
    const auto last = before.find(study);
    Entry entry{each, "", now};
    if (last != before.end()) {
      const Entry& known = last->second;
      const bool same_job = known.newest.job == each.job;
      if (!known.sentence.empty() && known.newest.why == each.why && now - known.since < kSentenceLasts) {
        entry.sentence = known.sentence;
        entry.since = known.since;
      } else if (same_job || !known.sentence.empty()) {
        entry.sentence = each.sentence;
      }
    }
    if (each.why == WaitingStudy::Why::kNobody) entry.sentence = each.sentence;
    unsettled_ = unsettled_ || entry.sentence != each.sentence;
    if (entry.sentence != (last == before.end() ? "" : last->second.sentence)) changed.push_back(study);
    studies_.emplace(study, std::move(entry));
  }
  for (const auto& [study, entry] : before) {
    if (!entry.sentence.empty() && !studies_.contains(study)) changed.push_back(study);
  }
  return changed;
}

bool WaitingReasons::Started(std::int64_t study) {
  const auto at = studies_.find(study);
  if (at == studies_.end()) return false;
  const bool shown = !at->second.sentence.empty();
  studies_.erase(at);
  return shown;
}

std::string WaitingReasons::Find(std::int64_t study) const {
  const auto at = studies_.find(study);
  return at == studies_.end() ? "" : at->second.sentence;
}

}  // namespace autocfg::server
