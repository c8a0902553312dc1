// Names the command-line option that an error is about. The one place that maps the subjects of the libraries
// (base/subject.h) to options. Thread-safe.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace autocfg::cli {

// Returns the error with the option in place of its subject: "--model: heads is 0". With `cluster`, errors about
// the cluster also show what --cluster was given. Errors about anything else stay as they are.
absl::Status OfOption(const absl::Status& status, std::string_view cluster = "");

}  // namespace autocfg::cli
