// Runs the study of one question, in this process or on a coordinator, and follows it to its end. Prints
// progress and notes. Not thread-safe.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "autocfg/v1/study_service.pb.h"
#include "cli/client/worker_pool.h"
#include "cli/question/search_request.h"
#include "cli/report/report.h"
#include "cli/terminal/console.h"

namespace autocfg::cli {

// Outcome of a study: its recommendation, or the exit code.
struct Ended {
  std::optional<v1::Recommendation> answer;
  int exit_code = kExitDone;
  TrialEnds trials = {};
  // Why the study was stopped before its end, and how to go on; empty if it came to its end. The answer is
  // then the best so far, if there is one.
  std::string stopped = {};
  absl::Status rejected = absl::OkStatus();  // of writing the file of --rejected
  // On an awkward global batch, or on the nodes that would be enough if nothing fits; empty: none.
  std::string size_note = {};
};

// Prints notes, each once.
class PrintedNotes {
 public:
  void Say(const std::string& note) {
    if (said_.insert(note).second) Note(note);
  }
  void Say(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) Say(note);
  }

 private:
  std::set<std::string> said_;
};

// Answers the question where it belongs: on the coordinator, if there is one and it is about its workers, or
// keeps the study; else in this process. `pool`: the coordinator's workers; null without one.
Ended Ask(const SearchArgs& args, SearchRequest& request, const WorkerPool* pool, PrintedNotes& notes);

}  // namespace autocfg::cli
