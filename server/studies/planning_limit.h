// How long one thread may plan a study, whoever asks: a study that plans, a recommendation, a report. Not
// thread-safe.
#pragma once

#include "absl/status/status.h"
#include "search/planner/planning.h"

namespace autocfg::server {

class PlanningLimit {
 public:
  // `most_s`: CPU seconds of the calling thread, from now on.
  explicit PlanningLimit(double most_s);

  // Counts from now on.
  void Restart();

  // Returns whether the thread has taken longer than that; then also the next time.
  bool Passed();

  // Returns a watch that says no once the limit has passed, or `watch` says no. The limit must outlive it.
  PlanningWatch Within(const PlanningWatch& watch);

  // Returns the error of planning that the limit has ended, ResourceExhausted, or else `status`.
  absl::Status ErrorOf(const absl::Status& status) const;

 private:
  const double most_s_;
  double from_s_;
  bool passed_ = false;
};

}  // namespace autocfg::server
