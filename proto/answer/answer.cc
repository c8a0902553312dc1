#include "proto/answer/answer.h"

#include <algorithm>

#include "proto/convert/spec_convert.h"

namespace autocfg {

bool MeasuredWhole(const v1::Candidate& candidate) {
  return candidate.has_measured() && !candidate.measured().slice();
}

double RankedSeconds(const v1::Candidate& candidate) {
  return MeasuredWhole(candidate) ? candidate.measured().median_step_time_s()
                                  : candidate.predicted().step_time_s();
}

std::string_view Provenance(const v1::Candidate& candidate) {
  return MeasuredWhole(candidate) ? "measured" : "predicted";
}

Throughput RatesAt(const SearchQuestion& question, const v1::Candidate& candidate, double step_time_s) {
  const auto plan = FromProto(candidate.plan());
  if (!plan.ok()) return {};
  return ThroughputOf(question, *plan, step_time_s);
}

bool IsTied(const v1::Candidate& candidate, const v1::Candidate& best) {
  if (!MeasuredWhole(best) || !MeasuredWhole(candidate)) return false;
  const v1::Measurement &other = candidate.measured(), &least = best.measured();
  return other.median_step_time_s() - other.ci95_s() <= least.median_step_time_s() + least.ci95_s();
}

int TiedWithBest(const v1::Recommendation& found) {
  const auto shown =
      std::count_if(found.runners_up().begin(), found.runners_up().end(),
                    [&](const v1::Candidate& candidate) { return IsTied(candidate, found.best()); });
  return static_cast<int>(shown) + found.tied_not_shown();
}

std::optional<double> LeadOf(const v1::Recommendation& found) {
  if (!found.has_best() || found.runners_up().empty()) return std::nullopt;
  const double best_s = RankedSeconds(found.best());
  if (!(best_s > 0)) return std::nullopt;
  return RankedSeconds(found.runners_up(0)) / best_s - 1;
}

double FreeShare(const v1::Prediction& predicted) {
  const auto& memory = predicted.memory_bytes();
  if (memory.capacity() <= 0) return 0;
  return std::max(0.0, 1 - static_cast<double>(memory.total()) / static_cast<double>(memory.capacity()));
}

std::optional<PredictionTies> PredictionTiesOf(const v1::Recommendation& found) {
  if (!found.has_best() || MeasuredWhole(found.best())) return std::nullopt;
  const double most_s = found.best().predicted().step_time_s() * (1 + kPredictionsTellApart);
  PredictionTies ties;
  double most_free = FreeShare(found.best().predicted()) + kMuchMoreFree;
  for (const v1::Candidate& candidate : found.runners_up()) {
    if (MeasuredWhole(candidate) || candidate.predicted().step_time_s() > most_s) continue;
    ++ties.count;
    const double free = FreeShare(candidate.predicted());
    if (free < most_free || (ties.roomier != nullptr && free == most_free)) continue;
    most_free = free;
    ties.roomier = &candidate;
  }
  return ties;
}

double EvaluatedPerSecond(const v1::Recommendation& found) {
  const double plan_s = found.plan_cpu_s();
  return plan_s > 0 ? static_cast<double>(found.counts().evaluated()) / plan_s : 0;
}

}  // namespace autocfg
