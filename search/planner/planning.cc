#include "search/planner/planning.h"

#include "fmt/format.h"

namespace autocfg {

absl::Status PlanningStopped(const PlanningProgress& progress) {
  return absl::CancelledError(
      fmt::format("planning was stopped after {} plans, of which {} fit", progress.enumerated, progress.fit));
}

}  // namespace autocfg
