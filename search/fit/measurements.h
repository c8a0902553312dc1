// Measured steps, which a cluster's figures are fitted to, and their table in CSV. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

struct Measurement {
  std::int64_t line = 0;  // of the file, from 1
  ModelSpec model = {};   // complete
  Workload workload = {};
  ParallelPlan plan = {};  // legal, canonical
  double step_time_s = 0;

  bool operator==(const Measurement&) const = default;
};

struct SkippedRow {
  std::int64_t line = 0;
  std::string reason;  // a phrase
};

struct Measurements {
  std::vector<Measurement> rows;
  std::vector<SkippedRow> skipped;
  std::vector<std::string> notes;  // on columns that were not used, and the vocabulary that was assumed
  ClusterSpec cluster;             // with as many nodes as the largest plan needs, and all figures given
};

// The values of columns that a file lacks, by name.
using ColumnDefaults = std::vector<std::pair<std::string, std::string>>;

// Parses "recompute=full,vocab=51200". InvalidArgument: an item without a name or a value, or a name given
// twice.
absl::StatusOr<ColumnDefaults> ParseColumnDefaults(std::string_view text);

// Parses a table whose first line names its columns (docs/formats.md, "Measurements"). Quoted cells are as in
// RFC 4180; an empty cell has the default. `cluster`: described; the plans' ranks fill its nodes.
//
// InvalidArgument: a column that is missing, named twice or given by `defaults` too; a line with another
// number of cells; a cell that is no value of its column; times in another unit than their column's name says
// (most steps would be faster than the devices' peak, or a thousand times slower); no row that can be used.
// The other impossible rows are skipped, with a reason:
//
// - a time that is not positive;
// - an illegal plan, or one that cannot be predicted;
// - `gpus` other than tp x pp x dp;
// - a step that is faster than the device's peak allows;
// - a repetition of an earlier row with the same time. The same plan with another time counts as measured
//   again.
absl::StatusOr<Measurements> ParseMeasurements(std::string_view csv, const ColumnDefaults& defaults,
                                               const ClusterSpec& cluster);

}  // namespace autocfg
