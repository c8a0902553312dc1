#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "nlohmann/json.hpp"
#include "proto/convert/breakdown_convert.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"
#include "server/report/report_parts.h"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostSplitBytes = 200;
constexpr double kMebibyte = 1024.0 * 1024.0;

// Returns a part of the whole in thousandths; 0 if the whole is nothing.
std::int64_t Permille(double part, double whole) { return whole > 0 ? std::llround(1000 * part / whole) : 0; }

Json TimeParts(const Breakdown& breakdown) {
  Json parts = Json::array();
  for (const BreakdownPart& part : kBreakdownParts) parts.push_back(Rounded(breakdown.*part.seconds));
  return parts;
}

std::string OptionValue(const PlanOption& option, const ParallelPlan& plan) {
  std::string value = option.print(plan);
  if (option.form != OptionForm::kSplit) return value;
  constexpr std::string_view kSplit = ",split=";
  return base::Cut(WithShortSplit(std::string(kSplit) + value).substr(kSplit.size()), kMostSplitBytes);
}

// Returns whether a plan's text names the option (PlanText).
bool IsNamed(const PlanOption& option, const ParallelPlan& plan) {
  ParallelPlan defaults;
  defaults.virtual_stages = plan.virtual_stages;
  SetDependentDefaults(defaults);
  defaults.virtual_stages = 1;
  return option.always_printed || !option.equal(plan, defaults);
}

// Returns a column of the values of an option: the values by their first use, whether a plan's text names it
// then, and for each plan the index of its value. Has no indices if all plans have the same value, or if it
// follows from others in all of them.
Json OptionColumn(const PlanOption& option, const std::vector<RankedPlan>& plans) {
  std::map<std::pair<std::string, bool>, std::size_t> known;
  Json values = Json::array(), indices = Json::array();
  std::string named;  // y or n, by value
  for (const RankedPlan& ranked : plans) {
    const auto [at, is_new] = known.try_emplace(
        std::pair(OptionValue(option, ranked.plan), IsNamed(option, ranked.plan)), known.size());
    if (is_new) {
      values.push_back(at->first.first);
      named += at->first.second ? 'y' : 'n';
    }
    indices.push_back(at->second);
  }
  const bool varies = values.size() > 1 && named.find('y') != std::string::npos;
  Json column{{"name", std::string(option.name)},
              {"summary", std::string(option.summary)},
              {"values", std::move(values)},
              {"named", std::move(named)}};
  if (varies) column["index"] = std::move(indices);
  return column;
}

// Returns what is known of the plans that were measured as a whole, beside their median. A corrected
// prediction may differ from that, and its parts then add up to it alone.
Json MeasuredColumns(const StudyReport& report, const PooledPlans& pooled) {
  Json rows = Json::array();
  for (std::size_t plan = 0; plan < report.plans.size(); ++plan) {
    const RankedPlan& ranked = report.plans[plan];
    if (!ranked.median_step_time_s) continue;
    const auto measured = pooled.find(PlanText(ranked.plan));
    const bool has_parts = measured != pooled.end() && measured->second.measured.has_breakdown_s();
    rows.push_back(Json{
        {"plan", plan},
        {"predicted_s", Rounded(ranked.predicted.step_time_s)},
        {"time_parts", has_parts ? TimeParts(FromProto(measured->second.measured.breakdown_s())) : Json()}});
  }
  return rows;
}

}  // namespace

Json PlansJson(const StudyReport& report, const PooledPlans& pooled) {
  Json options = Json::array();
  for (const PlanOption& option : PlanOptions()) options.push_back(OptionColumn(option, report.plans));
  Json seconds = Json::array(), memory = Json::array();
  std::string kinds;  // p: predicted, m: measured, s: a slice was measured
  std::vector<Json> time(kBreakdownParts.size(), Json::array()), space(kMemoryRegions.size(), Json::array());
  for (const RankedPlan& ranked : report.plans) {
    seconds.push_back(Rounded(ranked.median_step_time_s.value_or(ranked.predicted.step_time_s)));
    memory.push_back(Rounded(static_cast<double>(ranked.predicted.memory.Total()) / kMebibyte));
    kinds += ranked.slice ? 's' : ranked.median_step_time_s ? 'm' : 'p';
    const double total_s = ranked.predicted.breakdown.Total();
    for (std::size_t i = 0; i < time.size(); ++i)
      time[i].push_back(Permille(ranked.predicted.breakdown.*kBreakdownParts[i].seconds, total_s));
    const auto total_bytes = static_cast<double>(ranked.predicted.memory.Total());
    for (std::size_t i = 0; i < space.size(); ++i) {
      space[i].push_back(
          Permille(static_cast<double>(ranked.predicted.memory.*kMemoryRegions[i].bytes), total_bytes));
    }
  }
  return Json{{"count", report.plans.size()},
              {"in_all", report.plans_in_all},
              {"options", std::move(options)},
              {"seconds", std::move(seconds)},
              {"memory_mib", std::move(memory)},
              {"kinds", std::move(kinds)},
              {"time_permille", std::move(time)},
              {"memory_permille", std::move(space)},
              {"measured", MeasuredColumns(report, pooled)}};
}

}  // namespace autocfg::server
