// Values of plan options for tests, taken from the table of options: tests that use them cover a new value
// as soon as its row lists it. Pure, thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "search/plan/layer_parts/layer_parts.h"
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

// Returns one of the sets of parts but the empty one: any number picks one.
inline LayerParts SomeParts(std::uint64_t number) {
  return AllLayerParts()[number % (LayerParts::kSets - 1)];
}

struct OptionValue {
  std::string name;   // in the text form
  std::string value;  // "sp=1" has the value "1"
  std::string Text() const { return name + "=" + value; }
};

// Returns examples of a choice that stands for many values, or the choice.
inline std::vector<std::string> ExamplesOf(std::string_view choice) {
  if (!StandsForMany(choice)) return {std::string(choice)};
  if (choice == "full:K") return {"full:1"};
  if (choice == "selective:NAMES")
    return {"selective:norm", "selective:act", "selective:mlp+norm", "selective:core_attn+mlp+norm"};
  throw std::logic_error("no example of " + std::string(choice));
}

// Returns the values of the table that the engine runs. Those of many values have examples: 2 of a size,
// full:1 of full:K, 1+3 of the splits. Not split=auto, which is resolved before a plan runs.
inline std::vector<OptionValue> EngineValues() {
  const auto holds = [](std::span<const std::string_view> values, std::string_view value) {
    return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
  };
  std::vector<OptionValue> values;
  for (const PlanOption& option : PlanOptions()) {
    const std::string name(option.name);
    if (option.choices.empty()) values.push_back({name, "2"});
    for (const std::string_view choice : option.choices) {
      if (!holds(option.predicted, choice) || !holds(option.run, choice)) continue;
      if (option.form == OptionForm::kSplit && choice == "auto") continue;
      const bool split = option.form == OptionForm::kSplit && choice != "even";
      for (const std::string& value : ExamplesOf(split ? "1+3" : choice)) values.push_back({name, value});
    }
  }
  return values;
}

// Returns true if the plan has this value, or any split for that of the example, and it has something to act
// on. A default has.
inline bool Takes(const ParallelPlan& plan, const OptionValue& value) {
  const ParallelPlan canonical = Canonical(plan);
  if (value.value == "1+3") return canonical.split == SplitMode::kExplicit;
  return FindPlanOption(value.name)->print(canonical) == value.value;
}

// Returns the values above that none of the plans takes, as text.
inline std::vector<std::string> ValuesThatNoneTakes(const std::vector<ParallelPlan>& plans) {
  std::vector<std::string> missing;
  for (const OptionValue& value : EngineValues()) {
    if (std::none_of(plans.begin(), plans.end(), [&](const auto& plan) { return Takes(plan, value); }))
      missing.push_back(value.Text());
  }
  return missing;
}

}  // namespace autocfg::test
