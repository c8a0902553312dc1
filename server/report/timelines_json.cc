#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/plan/plan_text.h"
#include "server/report/report_parts.h"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBars = 20'000;  // of a step

// The letter of a bar: what the rank does.
char LetterOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return 'F';
    case ActionKind::kBackward: return 'B';
    case ActionKind::kInputGradient: return 'I';
    case ActionKind::kWeightGradient: return 'W';
    case ActionKind::kZeroScalars:
    case ActionKind::kOptimizer: return 'O';
    case ActionKind::kSumNormGradients:
    case ActionKind::kReduceGradients:
    case ActionKind::kSumTiedEmbedding:
    case ActionKind::kReduceScalars:
    case ActionKind::kGatherParameters: return 'C';
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient: break;
  }
  return ' ';
}

// What ranks of a pipeline do in a step, by rank.
using PipelineRows = std::vector<std::vector<TimelineRow>>;

// Returns the bars of one rank: its computes and collectives by start. `kinds` has a letter for each;
// `numbers` its microbatch and stage (-1: none), the ticks since the end of the bar before it, and its own.
Json RankBars(const std::vector<TimelineRow>& rows, double step_s) {
  std::vector<const TimelineRow*> bars;
  for (const TimelineRow& row : rows) {
    if (LetterOf(row.action.kind) != ' ') bars.push_back(&row);
  }
  std::stable_sort(bars.begin(), bars.end(),
                   [](const TimelineRow* a, const TimelineRow* b) { return a->start_s < b->start_s; });
  const auto ticks = [&](double seconds) {
    return static_cast<std::int64_t>(step_s > 0 ? std::llround(seconds / step_s * kTicksOfStep) : 0);
  };
  std::string kinds;
  Json numbers = Json::array();
  std::int64_t at = 0;
  for (const TimelineRow* row : bars) {
    const Action& action = row->action;
    const std::int64_t begin = std::max(at, ticks(row->start_s)), end = std::max(begin, ticks(row->end_s));
    kinds += LetterOf(action.kind);
    for (const std::int64_t number :
         {std::int64_t{action.microbatch}, std::int64_t{action.stage}, begin - at, end - begin})
      numbers.push_back(number);
    at = end;
  }
  return Json{{"kinds", kinds}, {"numbers", std::move(numbers)}};
}

// Sets what is drawn of a step, or says in `note` why it cannot be.
void SetStep(const PipelineRows& pipeline, double step_s, Json& json) {
  json["step_s"] = Rounded(step_s, 6);
  Json ranks = Json::array();
  std::size_t bars = 0;
  for (const std::vector<TimelineRow>& rows : pipeline) {
    ranks.push_back(RankBars(rows, step_s));
    bars += ranks.back()["kinds"].get_ref<const std::string&>().size();
  }
  if (bars > kMostBars) {
    json["note"] = fmt::format("its {} actions are too many to be drawn",
                               base::CountText(static_cast<std::int64_t>(bars)));
    ranks = Json::array();
  }
  json["ranks"] = std::move(ranks);
}

PipelineRows RowsOf(const PipelineTrace& trace) {
  PipelineRows pipeline(trace.ranks.size());
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    for (const TraceRow& row : trace.ranks[rank]) {
      const RankProgram& program = trace.program.ranks[static_cast<std::size_t>(row.rank)];
      pipeline[rank].push_back({.pipeline = static_cast<std::int32_t>(rank),
                                .action = program[static_cast<std::size_t>(row.action)],
                                .start_s = row.start_s,
                                .end_s = row.end_s});
    }
  }
  return pipeline;
}

Json MeasuredTimelineJson(const MeasuredTimeline& timeline, std::int64_t ranks) {
  Json json{{"trial", timeline.trial}, {"note", timeline.left_out}};
  PipelineRows pipeline(timeline.left_out.empty() ? static_cast<std::size_t>(ranks) : 0);
  double step_s = 0;
  for (const TimelineRow& row : timeline.rows) {
    const auto rank = static_cast<std::size_t>(row.pipeline);
    if (rank >= pipeline.size()) continue;  // CheckFits keeps such rows out
    pipeline[rank].push_back(row);
    step_s = std::max(step_s, row.end_s);
  }
  SetStep(pipeline, step_s, json);
  return json;
}

}  // namespace

Json TimelinesJson(const StudyReport& report) {
  Json all = Json::array();
  for (const PlanTimeline& timeline : report.timelines) {
    Json json{{"plan", WithShortSplit(PlanText(timeline.plan))}, {"note", timeline.too_large}};
    SetStep(RowsOf(timeline.trace), timeline.trace.step_time_s, json);
    json["measured"] =
        timeline.measured ? MeasuredTimelineJson(*timeline.measured, timeline.plan.pp) : Json();
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace autocfg::server
