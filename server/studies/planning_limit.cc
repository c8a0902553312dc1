#include "server/studies/planning_limit.h"

#include <string>

#include "fmt/format.h"
#include "server/studies/study_search.h"

namespace autocfg::server {

PlanningLimit::PlanningLimit(double most_s) : most_s_(most_s), from_s_(ThreadCpuSeconds()) {}

void PlanningLimit::Restart() { from_s_ = ThreadCpuSeconds(); }

bool PlanningLimit::Passed() {
  passed_ = passed_ || ThreadCpuSeconds() - from_s_ > most_s_;
  return passed_;
}

PlanningWatch PlanningLimit::Within(const PlanningWatch& watch) {
  return [this, watch](const PlanningProgress& progress) { return !Passed() && (!watch || watch(progress)); };
}

absl::Status PlanningLimit::ErrorOf(const absl::Status& status) const {
  if (!absl::IsCancelled(status) || !passed_) return status;
  return absl::ResourceExhaustedError(
      fmt::format("planning took {:g} s of a core, the most that this coordinator gives a study "
                  "(--max-planning): {}; name fewer values with --space, or a smaller batch or cluster",
                  most_s_, std::string(status.message())));
}

}  // namespace autocfg::server
