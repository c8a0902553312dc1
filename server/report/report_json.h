// The data of a report's page as JSON. Plans are columns, so that ten thousand of them take less than two
// megabytes. The page (page/*.js) reads it, and nothing else does: its keys may change with the page. Pure,
// thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/report/study_report.h"

namespace autocfg::server {

// Returns the JSON. The same study gives the same bytes. Text that is not UTF-8 is repaired. InvalidArgument:
// a plan of the answer is invalid.
absl::StatusOr<std::string> ReportJson(const StudyReport& report);

// Returns the page with that JSON (report_page.h).
absl::StatusOr<std::string> PageOf(const StudyReport& report);

// Returns the title of a study's page: "Study 3: gpt2-1.5b on h100-sxm, 16 ranks".
std::string ReportTitle(const StudyReport& report);

}  // namespace autocfg::server
