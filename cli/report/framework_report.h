// The answer of `autocfg import`: what a framework's file says, and what would make its plan faster. Pure
// functions, thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "proto/answer/answer.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/framework_file.h"
#include "search/predict/predict_plan.h"

namespace autocfg::cli {

// A plan that is better than the file's.
struct BetterPlan {
  std::string change;  // "mbs=2 in place of mbs=1"; empty: several
  PlanPrediction predicted;
  std::vector<ChangedLine> lines = {};
  std::vector<std::string> besides = {};  // to do outside of the file
  std::string unchanged = {};             // why no lines are named; empty if they are
};

struct FrameworkAnswer {
  FrameworkRun run;
  // With a described cluster:
  std::optional<PlanPrediction> predicted = {};
  std::optional<BetterPlan> one_change = {};
  std::optional<BetterPlan> faster = {};
  std::vector<std::string> notes = {};
};

// Returns "12% less" of two step times.
std::string GainText(double before_s, double after_s);

std::string FrameworkReport(const FrameworkAnswer& answer, const SearchQuestion& question);

// What the report says, complete, with the changed lines as {"line", "before", "after"}; null: not asked, or
// there is none.
nlohmann::ordered_json FrameworkJson(const FrameworkAnswer& answer, const SearchQuestion& question);

}  // namespace autocfg::cli
