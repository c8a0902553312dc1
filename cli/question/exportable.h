// Which training frameworks can express the plan that a search found (search/frameworks). Pure functions,
// thread-safe.
#pragma once

#include <string>

#include "autocfg/v1/study_service.pb.h"
#include "cli/report/results_json.h"

namespace autocfg::cli {

// Returns why the framework whose step was predicted cannot express the best plan; empty if it can, or if
// there is no export to it.
std::string NotExportable(const v1::Recommendation& answer, const SearchQuestion& question);

// Returns the first framework that can express the best plan, as --to names it; if a framework's step was
// predicted, only that one counts. Empty without any.
std::string FrameworkFor(const v1::Recommendation& answer, const SearchQuestion& question);

}  // namespace autocfg::cli
