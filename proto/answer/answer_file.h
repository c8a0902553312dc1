// Reads the file of a search's answer (docs/formats.md, "best.json"): for a run, which needs the best plan
// alone, for its evidence, and for a report, which needs the whole answer. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/answer/answer.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// The part of the file that a run needs.
struct BestPlan {
  ModelSpec model;
  Workload workload;
  ParallelPlan plan;
  std::optional<ClusterSpec> cluster = {};   // if the cluster is a described one
  bool local = false;                        // the cluster is this machine; else the file may name none
  bool remote = false;                       // as local, but it is the workers of a coordinator
  std::string engine = {};                   // whose step was predicted or measured; empty: not said
  std::int64_t ranks_per_node = 0;           // where no cluster says it; 0: unknown
  std::optional<double> memory_margin = {};  // of the search, for its cluster; empty: not said
};

// A file that holds at least a best plan. What else it should hold and does not is zero or empty in `answer`.
struct AnswerFile {
  BestPlan best;
  SearchAnswer answer;
  std::string build_id;     // of the program that wrote it
  absl::Status best_lacks;  // the first thing that `answer` lacks of the best plan's times and memory
  absl::Status lacks;       // the same of the whole answer
};

// InvalidArgument names the field. FailedPrecondition if the search found nothing that fits.
absl::StatusOr<AnswerFile> ReadAnswerFile(std::string_view text);

}  // namespace autocfg
