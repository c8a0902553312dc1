// A search's answer for people: every number says whether it was measured or predicted. Pure functions,
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "autocfg/v1/study_service.pb.h"
#include "cli/results_json.h"

namespace autocfg {

// `next`: the command that runs the best plan.
std::string SearchReport(const v1::Recommendation& answer, const SearchQuestion& question,
                         const std::string& next);

// Left-aligned columns, two spaces between them; the first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows);

// "created", "running", ...
std::string StateText(v1::StudyState state);
std::string StateText(v1::TrialState state);

}  // namespace autocfg
