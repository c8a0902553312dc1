#include "server/report/report_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer_json.h"
#include "proto/short_name.h"
#include "search/plan/plan_text.h"
#include "server/report/report_page.h"
#include "server/report/report_parts.h"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostMessageBytes = 400;
constexpr std::size_t kMostFailures = 100;

// Returns what the page says of the study beside its answer.
Json StudyJson(const StudyReport& report) {
  const v1::Study& study = report.study;
  Json space = Json::array();
  for (const v1::SpaceAxis& axis : study.spec().space())
    space.push_back(Json{{"option", axis.name()}, {"values", axis.values()}});
  return Json{{"name", study.name()},
              {"state", StateText(study.state())},
              {"message", base::OneLine(study.message(), kMostMessageBytes)},
              {"waiting", base::OneLine(study.waiting(), kMostMessageBytes)},
              {"owner", study.owner()},
              {"created_s", std::floor(study.create_time_s())},
              {"ended_s", std::floor(study.end_time_s())},
              {"fingerprint", study.fingerprint()},
              {"max_trials", study.spec().max_trials()},
              {"time_budget_s", study.spec().time_budget_s()},
              {"space", std::move(space)},
              {"left_out", report.answer.found.left_out()}};
}

// Writes long splits short, at any depth.
void ShortenSplits(Json& json) {
  for (auto& [key, value] : json.items()) {
    if (key == "plan_text" && value.is_string()) value = WithShortSplit(value.get<std::string>());
    if (value.is_structured()) ShortenSplits(value);
  }
}

// Returns the trials that ended without a measurement, the first of them in full.
Json FailuresJson(const StudyReport& report) {
  Json rows = Json::array();
  for (const v1::Trial& trial : report.trials) {
    const bool ended = trial.state() != v1::TRIAL_STATE_QUEUED && trial.state() != v1::TRIAL_STATE_RUNNING;
    if (!ended || trial.has_measured() || rows.size() >= kMostFailures) continue;
    rows.push_back(Json{{"trial", LastPartOf(trial.name())},
                        {"plan", WithShortSplit(trial.plan_text())},
                        {"state", StateText(trial.state())},
                        {"message", base::OneLine(trial.message(), kMostMessageBytes)}});
  }
  return rows;
}

// Returns how many trials there were, and how they ended.
Json TrialsJson(const StudyReport& report, const PooledPlans& pooled) {
  std::map<std::string, std::int64_t> states;
  std::int64_t attempts = 0, doubted = 0;
  for (const v1::Trial& trial : report.trials) {
    ++states[StateText(trial.state())];
    attempts += trial.attempts_size();
    doubted += trial.has_measured() ? 1 : 0;
  }
  for (const auto& [text, trials] : pooled) doubted -= trials.count;
  return Json{
      {"count", report.trials.size()}, {"attempts", attempts}, {"doubted", doubted}, {"by_state", states}};
}

template <typename Rows>
Json Labels(const Rows& rows) {
  Json labels = Json::array();
  for (const auto& row : rows) labels.push_back(std::string(row.label));
  return labels;
}

}  // namespace

double Rounded(double value, int digits) {
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

std::string LastPartOf(const std::string& name) { return name.substr(name.find_last_of('/') + 1); }

std::string ReportTitle(const StudyReport& report) {
  const SearchQuestion& question = report.answer.question;
  const std::string cluster = question.cluster.local || question.cluster.groups.empty()
                                  ? question.cluster.name
                                  : question.cluster.groups.front().device.name;
  const std::int64_t ranks = RankCount(question.cluster);
  const std::string search =
      report.study.name().empty() ? "Search" : fmt::format("Study {}", LastPartOf(report.study.name()));
  return fmt::format("{}: {} on {}, {} rank{}", search,
                     question.model.name.empty() ? "a model" : question.model.name,
                     cluster.empty() ? "a cluster" : cluster, base::CountText(ranks), ranks == 1 ? "" : "s");
}

absl::StatusOr<std::string> ReportJson(const StudyReport& report) {
  const PooledPlans pooled = MeasuredPlans(report);
  AUTOCFG_ASSIGN_OR_RETURN(Json answer, AnswerJson(report.answer));
  ShortenSplits(answer);
  const Json json{{"title", ReportTitle(report)},
                  {"from_file", report.from_file},
                  {"study", StudyJson(report)},
                  {"answer", std::move(answer)},
                  {"time_labels", Labels(kBreakdownParts)},
                  {"memory_labels", Labels(kMemoryRegions)},
                  {"plans", PlansJson(report, pooled)},
                  {"measurements", MeasurementsJson(report, pooled)},
                  {"failures", FailuresJson(report)},
                  {"timeline_ticks", kTicksOfStep},
                  {"timelines", TimelinesJson(report)},
                  {"trials", TrialsJson(report, pooled)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<std::string> PageOf(const StudyReport& report) {
  AUTOCFG_ASSIGN_OR_RETURN(const std::string json, ReportJson(report));
  return ReportPage(ReportTitle(report), json);
}

}  // namespace autocfg::server
