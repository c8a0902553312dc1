// Values of plan options for tests, taken from the table of options: tests that use them cover a new value
// as soon as its row lists it. Pure, thread-safe.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "search/plan/parallel_plan.h"
#include "search/plan/plan_options.h"

namespace autocfg::test {

// Returns the schedules that the cost model predicts, in the order of their enumerators.
inline std::vector<Schedule> PredictedSchedules() {
  std::vector<Schedule> schedules;
  for (std::size_t i = 0; i < kScheduleCount; ++i) {
    ParallelPlan plan{{.pp = 2}};
    plan.schedule = static_cast<Schedule>(i);
    if (CheckPredictable(plan).ok()) schedules.push_back(plan.schedule);
  }
  return schedules;
}

// Returns the predicted schedules under which each rank has one stage.
inline std::vector<Schedule> PredictedPlainSchedules() {
  std::vector<Schedule> schedules = PredictedSchedules();
  std::erase_if(schedules, TakesVirtualStages);
  return schedules;
}

struct OptionValue {
  std::string name;   // in the text form
  std::string value;  // "sp=1" has the value "1"
  std::string Text() const { return name + "=" + value; }
};

// Returns every value of the table that is not predicted yet.
inline std::vector<OptionValue> UnpredictedValues() {
  std::vector<OptionValue> values;
  for (const PlanOption& option : PlanOptions()) {
    if (option.predicted.empty()) continue;
    for (const std::string_view choice : option.choices) {
      if (std::find(option.predicted.begin(), option.predicted.end(), choice) == option.predicted.end())
        values.push_back({std::string(option.name), std::string(choice)});
    }
  }
  return values;
}

// Returns the first of them.
inline OptionValue UnpredictedValue() {
  const std::vector<OptionValue> values = UnpredictedValues();
  if (values.empty()) throw std::logic_error("every value is predicted: tests that refuse one can go");
  return values.front();
}

// Returns a plan of eight ranks with this value, in which it is legal and has something to act on.
inline std::string PlanTextWith(const OptionValue& value) {
  const bool without_pipeline = value.name == "zero";  // 2 and 3 do not go with pp > 1
  return (without_pipeline ? "tp=2,dp=4," : "tp=2,pp=2,dp=2,") + value.Text();
}

}  // namespace autocfg::test
