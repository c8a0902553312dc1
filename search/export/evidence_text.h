// The evidence for an exported plan, for people. Pure functions, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "search/export/exported_run.h"

namespace autocfg {

// Returns the lines of a header: the plan; model, workload and cluster; the step time with its interval,
// whose it is and how it was found; the memory and what is left; the runner-up; days to the token target;
// the study. A line that nothing is known of is left out.
std::vector<std::string> EvidenceLines(const ExportedRun& run);

// Returns the steps that make the run's tokens, rounded up; 0 if they are not said.
std::int64_t StepsOf(const ExportedRun& run);

}  // namespace autocfg
