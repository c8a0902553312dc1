// The page of a report from the file of a search, without a database. The file holds the answer, the plans
// that are named beside it and the counts; it has no trials, no timelines and no other plans. Pure,
// thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace autocfg::cli {

// Returns the page of what `autocfg search --output` wrote (docs/formats.md, "best.json"). InvalidArgument
// names the field that is missing or wrong. FailedPrecondition if the search found nothing that fits.
absl::StatusOr<std::string> ReportOfAnswer(const std::string& text);

}  // namespace autocfg::cli
