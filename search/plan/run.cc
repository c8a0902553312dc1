#include "search/plan/run.h"

#include "base/status_macros.h"

namespace autocfg {

absl::Status Validate(const Problem& problem) {
  AUTOCFG_RETURN_IF_ERROR(Validate(problem.model));
  AUTOCFG_RETURN_IF_ERROR(Validate(problem.workload, problem.model));
  return Validate(problem.cluster);
}

}  // namespace autocfg
