// Which training frameworks can express the plan that a search found (search/frameworks). Pure functions,
// thread-safe.
#pragma once

#include <string>

#include "proto/answer/answer.h"

namespace autocfg::cli {

// Returns why the framework whose step was predicted cannot express the best plan; empty if it can, or if
// there is no export to it.
std::string NotExportable(const SearchAnswer& answer);

// Returns the first framework that can express the best plan, as --to names it; if a framework's step was
// predicted, only that one counts. Empty without any.
std::string FrameworkFor(const SearchAnswer& answer);

}  // namespace autocfg::cli
