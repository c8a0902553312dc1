// What a framework cannot express of a run. Plain values.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "search/export/exported_run.h"
#include "search/frameworks/framework_rules.h"

namespace autocfg {

class Refusals {
 public:
  // `what` names the field with its value, and what to do: "schedule=zb-h1: it has 1f1b and interleaved".
  void Unless(bool expressible, std::string what) {
    if (!expressible) all_.push_back(std::move(what));
  }
  // All rules of the framework that the plan breaks.
  void ByRules(std::string_view framework, const ExportedRun& run) {
    const PlanCase plan{run.model, run.workload, RankCount(run.plan), run.plan};
    for (const LegalityRule& rule : FrameworkRules(framework)) {
      if (rule.broken(plan)) all_.push_back(rule.explain(plan));
    }
  }
  bool empty() const { return all_.empty(); }

  // Returns FailedPrecondition with all of them in one line; OK without any.
  absl::Status For(std::string_view target) const {
    if (all_.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("{0} cannot express {1}; search with --engine {0} (and --predict-only, unless a worker "
                    "runs it) for a plan that it can, or export to another target",
                    target, fmt::join(all_, "; ")));
  }

 private:
  std::vector<std::string> all_;
};

}  // namespace autocfg
