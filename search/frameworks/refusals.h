// What a framework cannot express of a run. Plain values.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "search/frameworks/exported_run.h"
#include "search/plan/legality.h"

namespace autocfg {

class Refusals {
 public:
  // `what` names the field with its value, and what the framework has instead: "activation=relu".
  void UnlessModel(bool expressible, std::string what) { Unless(expressible, std::move(what), of_model_); }
  // Refuses precisions that the framework lacks, all types of states but those of the precision itself, and
  // optimizers other than AdamW. `text`: how a message lists the precisions that it has.
  void UnlessPrecision(const ExportedRun& run, std::initializer_list<std::string_view> has,
                       std::string_view text) {
    if (run.workload.precision == *ParsePrecision(BaseName(run.workload.precision))) {
      UnlessBase(run, has, text);
    } else {
      State(fmt::format("precision={} (it has {})", PrecisionText(run.workload.precision), text));
    }
    Unless(run.workload.optimizer == Optimizer{},
           fmt::format("optimizer={} (the file has adamw)", OptimizerText(run.workload.optimizer)),
           of_precision_);
  }
  // As UnlessPrecision, but says nothing of states.
  void UnlessBase(const ExportedRun& run, std::initializer_list<std::string_view> has,
                  std::string_view text) {
    const std::string_view name = BaseName(run.workload.precision);
    Unless(std::find(has.begin(), has.end(), name) != has.end(),
           fmt::format("precision={} (it has {})", name, text), of_precision_);
  }
  // Refuses a type of states or an optimizer, named as in "grads=bf16".
  void State(std::string what) { Unless(false, std::move(what), of_precision_); }
  // All rules of a framework that the plan breaks.
  void ByRules(std::span<const LegalityRule> rules, const ExportedRun& run) {
    const PlanCase plan{run, RankCount(run.plan)};
    for (const LegalityRule& rule : rules) {
      if (rule.broken(plan)) Unless(false, rule.explain(plan), of_plan_);
    }
  }

  // Returns FailedPrecondition with all of them in one line; OK without any.
  absl::Status For(std::string_view target) const {
    if (all_.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("{} cannot express {}; {}", target, fmt::join(all_, "; "), Advice(target)));
  }

 private:
  void Unless(bool expressible, std::string what, bool& of_this) {
    if (expressible) return;
    all_.push_back(std::move(what));
    of_this = true;
  }

  // Advises a search for a plan only where a plan helps: none does for a model or a precision.
  std::string Advice(std::string_view target) const {
    if (of_model_) return "export to another target";
    if (!of_plan_) return "search with a precision that it has, or export to another target";
    return fmt::format(
        "search with --engine {}{} (and --predict-only, unless a worker runs it) for a plan that it can, or "
        "export to another target",
        target, of_precision_ ? " and a precision that it has" : "");
  }

  std::vector<std::string> all_;
  bool of_model_ = false, of_precision_ = false, of_plan_ = false;
};

}  // namespace autocfg
