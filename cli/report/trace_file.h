// The file of --trace: which ranks it has, and where it is written. Pure but for WriteTrace; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search/plan/parallel_plan.h"
#include "search/schedule/action.h"
#include "search/schedule/program.h"
#include "search/text/chrome_trace.h"

namespace autocfg::cli {

// Rows that a trace has at most by default: a row and the idle time before it take up to 330 bytes.
inline constexpr std::size_t kMostTraceRows = 60'000;

// The value of --trace that names standard output.
inline constexpr const char* kTraceToOutput = "-";

// Parses --trace-ranks: "all", or ranks below `ranks`, such as "0,8". Nothing if it is empty.
// InvalidArgument names the option.
absl::StatusOr<std::optional<std::vector<std::int32_t>>> LoadTraceRanks(const std::string& text,
                                                                        std::int64_t ranks);

// Drops the rows of ranks that are not asked for. Without `asked`, keeps all ranks if that is at most
// kMostTraceRows rows; else one rank of each stage of the pipeline, of which as many as fit, at least one.
// Returns a note about the ranks that were left out for their size; empty if none were.
std::string KeepTraceRanks(const std::optional<std::vector<std::int32_t>>& asked, const ParallelPlan& plan,
                           std::vector<TraceRow>& rows);

// Returns OK if the trace can be written there.
absl::Status CheckTrace(const std::string& path);
absl::Status WriteTrace(const std::string& path, const Program& program, const std::vector<TraceRow>& rows,
                        const TraceOrigin& origin);

}  // namespace autocfg::cli
