#include "cli/report/framework_report.h"

#include <cmath>

#include "base/text.h"
#include "cli/report/prediction_report.h"
#include "fmt/format.h"
#include "proto/answer/answer_json.h"
#include "search/plan/plan_text.h"
#include "search/question/prediction_json.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"
#include "search/text/workload_json.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string FiguresText(const PlanPrediction& predicted) {
  const Prediction& p = predicted.prediction;
  std::string text = fmt::format("  step time   {}, predicted\n", StepTimeText(p));
  text += fmt::format("  tokens/s    {} ({} a rank)\n",
                      base::CountText(std::llround(predicted.throughput.tokens_per_s)),
                      base::CountText(std::llround(predicted.throughput.tokens_per_s_per_gpu)));
  text += fmt::format("  memory      {} of {} a rank\n", base::BytesText(p.memory.Total()),
                      base::BytesText(p.capacity_bytes));
  if (!p.feasible) text += fmt::format("  does not fit: {}\n", p.reason);
  return text;
}

// Returns " (4 nodes of 8)" if the file says it.
std::string NodesText(const FrameworkRun& run) {
  if (run.ranks_per_node == 0) return "";
  const std::int64_t nodes = run.ranks / run.ranks_per_node;
  return fmt::format(" ({} node{} of {})", base::CountText(nodes), nodes == 1 ? "" : "s", run.ranks_per_node);
}

std::string LinesText(const BetterPlan& plan, const FrameworkRun& run) {
  const std::string file = base::Printable(run.settings.file);
  if (!plan.unchanged.empty()) return fmt::format("changed lines: {}\n", plan.unchanged);
  std::string text = plan.lines.empty() ? fmt::format("changed lines of {}: none\n", file)
                                        : fmt::format("changed lines of {}:\n", file);
  for (const ChangedLine& change : plan.lines) {
    if (!change.before.empty() || change.after.empty())
      text += fmt::format("  {:>4} - {}\n", change.line, base::OneLine(change.before));
    for (const std::string& line : change.after) {
      const std::string shown = base::OneLine(line);  // whole: it is to be pasted
      if (shown.empty() && change.before.empty()) continue;
      text += fmt::format("  {:>4} + {}\n", change.line, shown.empty() ? "(an empty line)" : shown);
    }
  }
  for (const std::string& what : plan.besides) text += fmt::format("  and: {}\n", what);
  return text;
}

// "26% less time: 9.10 s in place of 12.3 s".
std::string BetterText(const PlanPrediction& given, const PlanPrediction& better) {
  const double before_s = given.prediction.step_time_s, after_s = better.prediction.step_time_s;
  if (!given.prediction.feasible) return fmt::format("fits, and takes {}", base::SecondsText(after_s));
  return fmt::format("{}: {} in place of {}", GainText(before_s, after_s), base::SecondsText(after_s),
                     base::SecondsText(before_s));
}

Json BetterJson(const std::optional<BetterPlan>& better, const PlanPrediction& given) {
  if (!better) return nullptr;
  Json json = Json{{"change", better->change.empty() ? Json(nullptr) : Json(better->change)}};
  json.update(PlanPredictionJson(better->predicted));
  json["step_time_ratio"] = better->predicted.prediction.step_time_s / given.prediction.step_time_s;
  json["changed_lines"] = better->unchanged.empty() ? Json::array() : Json(nullptr);
  for (const ChangedLine& change : better->lines) {
    const bool added = change.before.empty() && !change.after.empty();
    json["changed_lines"].push_back({{"line", change.line},
                                     {"before", added ? Json(nullptr) : Json(change.before)},
                                     {"after", change.after}});
  }
  json["besides"] = better->besides;
  json["unchanged"] = better->unchanged.empty() ? Json(nullptr) : Json(better->unchanged);
  return json;
}

}  // namespace

std::string GainText(double before_s, double after_s) {
  return fmt::format("{:.{}f}% less", 100 * (1 - after_s / before_s), after_s < 0.9 * before_s ? 0 : 1);
}

std::string FrameworkReport(const FrameworkAnswer& answer, const SearchQuestion& question) {
  const FrameworkRun& run = answer.run;
  std::string text =
      fmt::format("read: {}, a file of {}\n", base::Printable(run.settings.file), run.framework);
  text += WorkloadText(question) + "\n";
  text += answer.predicted ? ClusterText(question.cluster, run.ranks) + "\n"
                           : fmt::format("ranks: {}{}\n", base::CountText(run.ranks), NodesText(run));
  text += fmt::format("\nyour plan: {}\n", PlanText(run.plan));
  if (!answer.predicted) return text;
  const PlanPrediction& given = *answer.predicted;
  text += FiguresText(given);
  if (answer.one_change) {
    text += fmt::format("\none change: {}\n  {}\n", answer.one_change->change,
                        BetterText(given, answer.one_change->predicted));
    text += LinesText(*answer.one_change, run);
  } else {
    text += "\none change: none makes it faster\n";
  }
  if (answer.faster) {
    text += fmt::format("\nfaster plan: {}\n  {}\n", PlanText(answer.faster->predicted.plan),
                        BetterText(given, answer.faster->predicted));
    text += FiguresText(answer.faster->predicted) + LinesText(*answer.faster, run);
  } else {
    text += fmt::format("\nfaster plan: none that {} can express is predicted\n", run.framework);
  }
  return text;
}

Json FrameworkJson(const FrameworkAnswer& answer, const SearchQuestion& question) {
  const FrameworkRun& run = answer.run;
  Json json{{"framework", run.framework},
            {"engine", run.engine},
            {"file", run.settings.file},
            {"model", ModelJson(run.model)},
            {"workload", WorkloadJson(run.workload)},
            {"ranks", run.ranks},
            {"best", {{"plan", PlanJson(run.plan)}, {"plan_text", PlanText(run.plan)}}}};
  json["layout"] = nullptr;
  if (run.ranks_per_node > 0) {
    json["layout"] = {{"nodes", run.ranks / run.ranks_per_node}, {"ranks_per_node", run.ranks_per_node}};
  }
  json["cluster"] = answer.predicted ? ClusterJson(question.cluster) : Json(nullptr);
  json["predicted"] = answer.predicted ? PlanPredictionJson(*answer.predicted) : Json(nullptr);
  json["one_change"] = answer.predicted ? BetterJson(answer.one_change, *answer.predicted) : Json(nullptr);
  json["faster"] = answer.predicted ? BetterJson(answer.faster, *answer.predicted) : Json(nullptr);
  json["ignored"] = Json::array();
  for (const IgnoredSetting& setting : run.ignored)
    json["ignored"].push_back({{"name", setting.name}, {"line", setting.line}});
  json["notes"] = answer.notes;
  return json;
}

}  // namespace autocfg::cli
