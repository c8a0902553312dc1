#include "server/report/report_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/os/process.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/plan/plan_text.h"
#include "search/plan/precision.h"
#include "server/report/json_values.h"
#include "server/report/report_parts.h"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostMessageBytes = 400;
constexpr std::size_t kMostFailures = 100;

// "STUDY_STATE_RUNNING" -> "running".
std::string WithoutPrefix(const std::string& name, std::string_view prefix) {
  std::string text = name.substr(std::min(prefix.size(), name.size()));
  for (char& c : text) c = c == '_' ? ' ' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}
std::string TrialStateName(v1::TrialState state) {
  return WithoutPrefix(v1::TrialState_Name(state), "TRIAL_STATE_");
}

Json StudyJson(const StudyReport& report) {
  const v1::Study& study = report.study;
  return Json{{"name", study.name()},
              {"state", StateName(study.state())},
              {"phase", study.phase()},
              {"message", base::OneLine(study.message(), kMostMessageBytes)},
              {"waiting", base::OneLine(study.waiting(), kMostMessageBytes)},
              {"owner", study.owner()},
              {"weight", study.weight() > 0 ? study.weight() : 1},
              {"created_s", std::floor(study.create_time_s())},
              {"ended_s", std::floor(study.end_time_s())},
              {"fingerprint", study.fingerprint()}};
}

Json QuestionJson(const StudyReport& report) {
  const SearchProblem& problem = report.problem;
  const ModelSpec& model = problem.model;
  Json groups = Json::array();
  for (const NodeGroup& group : problem.cluster.groups) {
    groups.push_back(Json{{"device", group.device.name},
                          {"nodes", group.nodes},
                          {"ranks_per_node", group.gpus_per_node},
                          {"memory_mib", MebibytesOf(group.device.memory_bytes)}});
  }
  Json space = Json::array();
  for (const v1::SpaceAxis& axis : report.study.spec().space()) {
    Json values = Json::array();
    for (const std::string& value : axis.values()) values.push_back(value);
    space.push_back(Json{{"option", axis.name()}, {"values", std::move(values)}});
  }
  return Json{{"model",
               {{"name", model.name},
                {"parameters", ParameterCount(model)},
                {"layers", model.layers},
                {"hidden", model.hidden},
                {"heads", model.heads},
                {"vocab", model.vocab}}},
              {"cluster",
               {{"name", problem.cluster.name},
                {"local", problem.cluster.local},
                {"ranks", RankCount(problem.cluster)},
                {"groups", std::move(groups)}}},
              {"workload",
               {{"global_batch", problem.workload.global_batch},
                {"seq_len", problem.workload.seq_len},
                {"precision", std::string(Name(problem.workload.precision))}}},
              {"engine", problem.cluster.engine.name},
              {"emulated", IsEmulated(problem.device)},
              {"predict_only", problem.options.predict_only},
              {"exhaustive", problem.options.exhaustive},
              {"max_trials", problem.options.max_trials},
              {"time_budget_s", problem.time_budget_s},
              {"memory_margin", problem.options.memory_margin},
              {"space", std::move(space)}};
}

// Returns the trials that ended without a measurement, the first of them in full.
Json FailuresJson(const StudyReport& report) {
  Json rows = Json::array();
  for (const v1::Trial& trial : report.trials) {
    const bool ended = trial.state() != v1::TRIAL_STATE_QUEUED && trial.state() != v1::TRIAL_STATE_RUNNING;
    if (!ended || trial.has_measured() || rows.size() >= kMostFailures) continue;
    rows.push_back(Json{{"trial", LastPartOf(trial.name())},
                        {"plan", WithShortSplit(trial.plan_text())},
                        {"state", TrialStateName(trial.state())},
                        {"message", base::OneLine(trial.message(), kMostMessageBytes)}});
  }
  return rows;
}

Json BillJson(const StudyReport& report, const PooledPlans& pooled) {
  std::map<std::string, std::int64_t> states;
  std::int64_t attempts = 0, doubted = 0;
  for (const v1::Trial& trial : report.trials) {
    ++states[TrialStateName(trial.state())];
    attempts += trial.attempts_size();
    doubted += trial.has_measured() ? 1 : 0;
  }
  for (const auto& [text, trials] : pooled) doubted -= trials.count;
  Json by_state = Json::array();
  for (const auto& [state, count] : states) by_state.push_back(Json{{"state", state}, {"count", count}});
  const v1::Recommendation& answer = report.answer;
  return Json{{"wall_s", Rounded(answer.wall_s())},
              {"plan_cpu_s", Rounded(answer.plan_cpu_s())},
              {"device_s", Rounded(answer.device_s())},
              {"exhaustive_device_s", Rounded(answer.exhaustive_device_s())},
              {"trials", report.trials.size()},
              {"attempts", attempts},
              {"doubted", doubted},
              {"by_state", std::move(by_state)},
              {"trials_reused", answer.reused_trials()},
              {"op_times_measured", answer.measured_op_times()},
              {"op_times_reused", answer.reused_op_times()},
              {"op_times_estimated", answer.estimated_op_times()}};
}

Json CountsJson(const StudyReport& report) {
  const v1::Counts& counts = report.answer.counts();
  std::vector<std::pair<std::string, std::int64_t>> reasons(counts.rejected().begin(),
                                                            counts.rejected().end());
  std::sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  Json rejected = Json::array();
  for (const auto& [reason, count] : reasons) {
    if (count > 0) rejected.push_back(Json{{"reason", reason}, {"count", count}});
  }
  return Json{{"enumerated", counts.enumerated()},       {"illegal", counts.illegal()},
              {"out_of_memory", counts.out_of_memory()}, {"predicted", counts.predicted()},
              {"measured", counts.measured()},           {"rejected", std::move(rejected)}};
}

template <typename Rows>
Json Labels(const Rows& rows) {
  Json labels = Json::array();
  for (const auto& row : rows) labels.push_back(std::string(row.label));
  return labels;
}

}  // namespace

std::string StateName(v1::StudyState state) {
  return WithoutPrefix(v1::StudyState_Name(state), "STUDY_STATE_");
}

std::string ReportTitle(const StudyReport& report) {
  const SearchProblem& problem = report.problem;
  const std::string cluster = problem.cluster.local || problem.cluster.groups.empty()
                                  ? problem.cluster.name
                                  : problem.cluster.groups.front().device.name;
  const std::int64_t ranks = RankCount(problem.cluster);
  const std::string search =
      report.study.name().empty() ? "Search" : fmt::format("Study {}", LastPartOf(report.study.name()));
  return fmt::format("{}: {} on {}, {} rank{}", search,
                     problem.model.name.empty() ? "a model" : problem.model.name,
                     cluster.empty() ? "a cluster" : cluster, base::CountText(ranks), ranks == 1 ? "" : "s");
}

std::string ReportJson(const StudyReport& report) {
  const PooledPlans pooled = MeasuredPlans(report);
  Json json{{"title", ReportTitle(report)},
            {"version", base::Version()},
            {"build", base::BuildId()},
            {"study", StudyJson(report)},
            {"question", QuestionJson(report)},
            {"answer", AnswerJson(report)},
            {"time_labels", Labels(kBreakdownParts)},
            {"memory_labels", Labels(kMemoryRegions)},
            {"plans", PlansJson(report, pooled)},
            {"measurements", MeasurementsJson(report, pooled)},
            {"failures", FailuresJson(report)},
            {"timeline_ticks", kTicksOfStep},
            {"timelines", TimelinesJson(report)},
            {"counts", CountsJson(report)},
            {"bill", BillJson(report, pooled)}};
  json["from_file"] = report.from_file;
  if (report.from_file) json["front"] = FrontJson(report);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace autocfg::server
