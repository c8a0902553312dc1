#include <algorithm>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "proto/merge_results.h"
#include "search/plan/plan_text.h"
#include "server/report/report_parts.h"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

// What a search measured of one plan.
struct PlanTrials {
  const v1::Trial* first = nullptr;  // that was measured
  std::int64_t count = 0;
};

}  // namespace

PooledPlans MeasuredPlans(const StudyReport& report) {
  std::map<std::string, const std::vector<std::int64_t>*> counted;
  for (const RankedPlan& ranked : report.plans) {
    if (!ranked.trials.empty()) counted[PlanText(ranked.plan)] = &ranked.trials;
  }
  std::map<std::string, std::vector<v1::Measurement>> trials;
  for (const v1::Trial& trial : report.trials) {
    if (!trial.has_measured()) continue;
    const auto known = counted.find(trial.plan_text());
    if (known == counted.end() ||
        std::find(known->second->begin(), known->second->end(), trial.repeat()) == known->second->end())
      continue;
    trials[trial.plan_text()].push_back(trial.measured());
  }
  PooledPlans pooled;
  for (const auto& [text, measured] : trials)
    pooled[text] = {.measured = PoolTrials(measured), .count = static_cast<std::int64_t>(measured.size())};
  return pooled;
}

Json MeasurementsJson(const StudyReport& report, const PooledPlans& pooled) {
  std::vector<std::string> order;
  std::map<std::string, PlanTrials> plans;
  for (const v1::Trial& trial : report.trials) {
    if (!trial.has_measured()) continue;
    PlanTrials& of_plan = plans[trial.plan_text()];
    if (of_plan.count++ == 0) {
      of_plan.first = &trial;
      order.push_back(trial.plan_text());
    }
  }
  Json rows = Json::array();
  for (const std::string& text : order) {
    const PlanTrials& of_plan = plans[text];
    const auto of_trials = pooled.find(text);
    if (of_trials == pooled.end()) continue;
    const v1::Measurement& measured = of_trials->second.measured;
    rows.push_back(Json{{"plan", WithShortSplit(text)},
                        {"trial", LastPartOf(of_plan.first->name())},
                        {"trials", of_trials->second.count},
                        {"doubted", of_plan.count - of_trials->second.count},
                        {"slice", measured.slice()},
                        {"predicted_s", Rounded(of_plan.first->predicted().step_time_s())},
                        {"low_s", Rounded(of_plan.first->predicted().step_time_low_s())},
                        {"high_s", Rounded(of_plan.first->predicted().step_time_high_s())},
                        {"measured_s", Rounded(measured.median_step_time_s())},
                        {"ci95_s", Rounded(measured.ci95_s(), 3)}});
  }
  return rows;
}

}  // namespace autocfg::server
