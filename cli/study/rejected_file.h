// The file of `search --rejected`: checked before the search, written once it has ended.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cli/terminal/interrupt.h"
#include "proto/client/study_client.h"

namespace autocfg::cli {

// Returns kExitDone if `rejected` is empty, or can be written and is another file than `output`; prints an
// error otherwise.
int CheckRejected(const std::string& rejected, const std::string& output);

// Writes the rejected plans of a study to this file, unless its name is empty. A study of which no plan is
// left has one too. Cancelled once interrupted; the file is then not written.
absl::Status WriteRejected(const std::string& rejected, StudyClient& client, const std::string& study,
                           const Interrupt& interrupt);

// Returns the exit code of a search whose answer was presented with `code`, and prints the error of
// WriteRejected if there was one.
int EndOfRejected(int code, const absl::Status& rejected);

}  // namespace autocfg::cli
