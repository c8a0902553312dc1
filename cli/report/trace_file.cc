#include "cli/report/trace_file.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/text.h"
#include "cli/input/files.h"
#include "cli/input/option_values.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "search/plan/rank_mesh.h"

namespace autocfg::cli {
namespace {

// Returns the ranks of a trace that would be too long with all of them: one of each stage, of which as many
// as fit, from the first to the last.
std::set<std::int32_t> RanksThatFit(const ParallelPlan& plan, const std::vector<TraceRow>& rows) {
  const RankMesh mesh(plan);
  std::map<std::int32_t, std::size_t> of_stage;  // rows of each rank that may stay
  for (const TraceRow& row : rows) {
    if (mesh.Coordinate(row.rank, Axis::kTensor) == 0 && mesh.Coordinate(row.rank, Axis::kData) == 0)
      ++of_stage[row.rank];
  }
  std::size_t most = 1;
  std::vector<std::int32_t> stages;
  for (const auto& [rank, count] : of_stage) {
    stages.push_back(rank);
    most = std::max(most, count);
  }
  const std::size_t fit =
      std::clamp<std::size_t>(kMostTraceRows / most, 1, std::max<std::size_t>(stages.size(), 1));
  std::set<std::int32_t> kept;
  for (std::size_t i = 0; i < fit && !stages.empty(); ++i)
    kept.insert(stages[fit == 1 ? 0 : i * (stages.size() - 1) / (fit - 1)]);
  return kept;
}

}  // namespace

absl::StatusOr<std::optional<std::vector<std::int32_t>>> LoadTraceRanks(const std::string& text,
                                                                        std::int64_t ranks) {
  using Ranks = std::optional<std::vector<std::int32_t>>;
  if (text.empty()) return Ranks();
  std::vector<std::int32_t> listed;
  if (text == "all") {
    for (std::int32_t rank = 0; rank < ranks; ++rank) listed.push_back(rank);
    return Ranks(std::move(listed));
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto rank =
        ParseWhole("--trace-ranks", std::string_view(text).substr(begin, end - begin), 0, ranks - 1);
    if (!rank.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}, several as in 0,{}, or all", Text(rank.status()), ranks - 1));
    }
    if (std::find(listed.begin(), listed.end(), *rank) != listed.end())
      return absl::InvalidArgumentError(
          fmt::format("--trace-ranks: {} is listed twice; list it once", *rank));
    listed.push_back(static_cast<std::int32_t>(*rank));
    begin = end + 1;
  }
  return Ranks(std::move(listed));
}

std::string KeepTraceRanks(const std::optional<std::vector<std::int32_t>>& asked, const ParallelPlan& plan,
                           std::vector<TraceRow>& rows) {
  if (!asked && rows.size() <= kMostTraceRows) return "";
  const std::set<std::int32_t> kept =
      asked ? std::set<std::int32_t>(asked->begin(), asked->end()) : RanksThatFit(plan, rows);
  std::erase_if(rows, [&](const TraceRow& row) { return !kept.contains(row.rank); });
  if (asked) return "";
  return fmt::format(
      "--trace: {} of the {} ranks, each of another stage of the pipeline; give --trace-ranks R,... "
      "or all for others",
      kept.size(), base::CountText(RankMesh(plan).size()));
}

absl::Status CheckTrace(const std::string& path) {
  return path == kTraceToOutput ? absl::OkStatus() : CheckWritable(path);
}

absl::Status WriteTrace(const std::string& path, const Program& program, const std::vector<TraceRow>& rows,
                        const TraceOrigin& origin) {
  const std::string text = ChromeTrace(program, rows, origin);
  return WriteFileAtomically(path == kTraceToOutput ? "/dev/stdout" : path, text);
}

}  // namespace autocfg::cli
