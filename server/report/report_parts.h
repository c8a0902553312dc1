// The parts of a report's JSON that have files of their own. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "nlohmann/json_fwd.hpp"
#include "server/report/study_report.h"

namespace autocfg::server {

// The trials of a plan that count, together.
struct PooledTrials {
  v1::Measurement measured;
  std::int64_t count = 0;
};
using PooledPlans = std::map<std::string, PooledTrials>;  // by the plan's text

// Returns the number with so few digits that its text is short.
double Rounded(double value, int digits = 5);

// Returns "3" of "studies/1/trials/3".
std::string LastPartOf(const std::string& name);

// Returns what was measured of each plan, by its text, over its trials that count (measured_plans.cc). A
// measured plan of which one counts is in the ranking; doubted trials do not count.
PooledPlans MeasuredPlans(const StudyReport& report);

inline constexpr double kTicksOfStep = 100'000;  // resolution of a timeline

// Returns a column for each option, and the times, the memory and their parts of each plan. An option's
// column has its values by their first use, and for each plan the index of its value (plans_json.cc).
nlohmann::ordered_json PlansJson(const StudyReport& report, const PooledPlans& pooled);

// Returns what was predicted of each plan before its first trial, beside what was measured over its trials,
// in the order of the first ones (measured_plans.cc).
nlohmann::ordered_json MeasurementsJson(const StudyReport& report, const PooledPlans& pooled);

// Returns for each plan what its ranks do in a step, as predicted and as measured, or why it is not drawn
// (timelines_json.cc).
nlohmann::ordered_json TimelinesJson(const StudyReport& report);

}  // namespace autocfg::server
