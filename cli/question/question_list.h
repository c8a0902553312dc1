// The questions of one `autocfg search`: each combination of the clusters, node counts, global batches and
// sequence lengths that its options list. Pure but for looking up if --cluster names a file; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/question/search_request.h"

namespace autocfg::cli {

// Most questions of one command.
inline constexpr std::size_t kMostQuestions = 64;

// Returns the arguments of each question: those given, with one value in place of each list. --cluster
// changes slowest, then --nodes, --global-batch and --seq-len. A preset takes its number of nodes into its
// name; other clusters keep `nodes`. A --cluster that is the name of an existing file is no list.
//
// InvalidArgument, naming the option: a list without --predict-only, an empty value, a value that is repeated
// in any spelling, presets that --nodes makes the same, a number that is out of range (in lists; single
// values are checked by LoadSearch), or more than kMostQuestions combinations.
absl::StatusOr<std::vector<SearchArgs>> QuestionsOf(const SearchArgs& args);

// Returns whether the error of one question leaves the others as they are: it is about the workload or about
// the plans of the space, which follow from the combination of values.
bool IsOfOneQuestion(const absl::Status& status);

}  // namespace autocfg::cli
