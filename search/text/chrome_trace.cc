#include "search/text/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/plan/model_stages.h"
#include "search/plan/plan_text.h"
#include "search/plan/rank_mesh.h"

namespace autocfg {
namespace {

// Rounds a time to whole nanoseconds. Times are rounded before they are compared, so that adjacent events are
// also adjacent in the text.
std::int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// Returns a colour name that the viewers know.
std::string_view Colour(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return "thread_state_running";
    case ActionKind::kBackward:
    case ActionKind::kInputGradient: return "thread_state_runnable";
    case ActionKind::kWeightGradient: return "thread_state_unknown";
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient: return "thread_state_iowait";
    case ActionKind::kSumNormGradients:
    case ActionKind::kReduceGradients:
    case ActionKind::kSumTiedEmbedding:
    case ActionKind::kReduceScalars:
    case ActionKind::kGatherParameters: return "rail_animation";
    case ActionKind::kZeroScalars:
    case ActionKind::kOptimizer: return "generic_work";
  }
  return "generic_work";
}

std::string RankName(const Program& program, const RankMesh& mesh, std::int64_t rank) {
  const std::int64_t pipeline_rank = mesh.Coordinate(rank, Axis::kPipeline);
  std::string stages;
  for (std::int64_t chunk = 0; chunk < program.plan.virtual_stages; ++chunk) {
    stages += fmt::format("{}{}", chunk == 0 ? "" : ", ", StageOf(program.plan, pipeline_rank, chunk));
  }
  return fmt::format("rank {} (stage{} {})", rank, program.plan.virtual_stages > 1 ? "s" : "", stages);
}

// Writes events in sequence. Nothing needs escaping: names consist of letters, digits and punctuation.
class Writer {
 public:
  explicit Writer(std::size_t events) { text_.reserve(160 * events); }

  void Metadata(std::string_view what, std::int64_t rank, int lane, std::string_view argument) {
    Next();
    fmt::format_to(out_, R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{{}}}}})", what, rank, lane,
                   argument);
  }

  // `begin` and `end` are in nanoseconds.
  void Event(std::string_view name, std::string_view category, std::string_view colour, std::int64_t rank,
             int lane, std::int64_t begin, std::int64_t end, std::string_view arguments) {
    Next();
    fmt::format_to(
        out_,
        R"({{"name":"{}","cat":"{}","ph":"X","ts":{},"dur":{},"pid":{},"tid":{},"cname":"{}","args":{{{}}}}})",
        name, category, Microseconds(begin), Microseconds(end - begin), rank, lane, colour, arguments);
  }

  std::string Finish(const nlohmann::ordered_json& other) {
    return fmt::format("{{\"traceEvents\":[\n{}\n],\n\"displayTimeUnit\":\"ms\",\"otherData\":{}}}\n", text_,
                       other.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }

 private:
  static std::string Microseconds(std::int64_t nanoseconds) {
    const std::int64_t size = std::abs(nanoseconds);
    return fmt::format("{}{}.{:03}", nanoseconds < 0 ? "-" : "", size / 1000, size % 1000);
  }

  void Next() {
    if (!text_.empty()) text_ += ",\n";
  }

  std::string text_;
  std::back_insert_iterator<std::string> out_{text_};
};

std::string Arguments(const TraceRow& row, const Action& action) {
  std::string text = fmt::format(R"("action":{},"kind":"{}")", row.action, Name(action.kind));
  if (action.stage >= 0) text += fmt::format(R"(,"stage":{})", action.stage);
  if (action.microbatch >= 0) text += fmt::format(R"(,"microbatch":{})", action.microbatch);
  if (row.step > 0) text += fmt::format(R"(,"step":{})", row.step);
  return text;
}

nlohmann::ordered_json OtherData(const Program& program, const TraceOrigin& origin) {
  using Json = nlohmann::ordered_json;
  const auto text = [](const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); };
  Json other{{"plan", PlanText(program.plan)},
             {"kind", Name(origin.kind)},
             {"device", text(std::string(origin.device ? Name(*origin.device) : ""))},
             {"cluster", text(origin.cluster)}};
  other["slice"] = origin.slice ? Json{{"tensor", origin.slice->tensor}, {"pipeline", origin.slice->pipeline}}
                                : Json(nullptr);
  return other;
}

}  // namespace

std::string_view Name(TraceKind kind) {
  switch (kind) {
    case TraceKind::kMeasured: return "measured";
    case TraceKind::kEmulated: return "emulated";
    case TraceKind::kPredicted: return "predicted";
  }
  return "predicted";
}

std::string ChromeTrace(const Program& program, std::span<const TraceRow> rows, const TraceOrigin& origin) {
  const RankMesh mesh(program.plan);
  std::map<std::pair<std::int32_t, Lane>, std::vector<const TraceRow*>> lanes;
  std::int64_t step_begin = 0;
  std::int64_t step_end = 0;
  for (const TraceRow& row : rows) {
    lanes[{row.rank, Lane::kCompute}];  // so that a lane without rows is idle for the whole step
    lanes[{row.rank, row.lane}].push_back(&row);
    step_begin = std::min(step_begin, Nanoseconds(row.start_s));
    step_end = std::max(step_end, Nanoseconds(row.end_s));
  }

  Writer writer(2 * rows.size());
  for (auto& [where, of_lane] : lanes) {
    const std::int32_t rank = where.first;
    const Lane lane = where.second;
    const int thread = static_cast<int>(lane);
    if (lane == Lane::kCompute) {
      writer.Metadata("process_name", rank, thread,
                      fmt::format(R"("name":"{}")", RankName(program, mesh, rank)));
      writer.Metadata("process_labels", rank, thread,
                      fmt::format(R"("labels":"{}{}")", Name(origin.kind),
                                  origin.slice ? ", a slice: it ran alone" : ""));
      writer.Metadata("process_sort_index", rank, thread, fmt::format(R"("sort_index":{})", rank));
    }
    writer.Metadata("thread_name", rank, thread, fmt::format(R"("name":"{}")", Name(lane)));
    writer.Metadata("thread_sort_index", rank, thread, fmt::format(R"("sort_index":{})", thread));

    std::int64_t free = step_begin;
    const auto idle_until = [&](std::int64_t until) {
      if (free < until) writer.Event("idle", "idle", "white", rank, thread, free, until, "");
    };
    std::sort(of_lane.begin(), of_lane.end(), [](const TraceRow* a, const TraceRow* b) {
      return std::pair(a->step, a->action) < std::pair(b->step, b->action);
    });
    for (const TraceRow* row : of_lane) {
      const Action& action =
          program.ranks.at(static_cast<std::size_t>(rank)).at(static_cast<std::size_t>(row->action));
      const std::int64_t begin = std::max(free, Nanoseconds(row->start_s));
      const std::int64_t end = std::max(begin, Nanoseconds(row->end_s));
      idle_until(begin);
      writer.Event(ToString(action), Name(action.kind), Colour(action.kind), rank, thread, begin, end,
                   Arguments(*row, action));
      free = end;
    }
    idle_until(step_end);
  }
  return writer.Finish(OtherData(program, origin));
}

}  // namespace autocfg
