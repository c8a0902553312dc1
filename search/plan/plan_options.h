// The table of plan options: one row describes everything that other parts know about an option. The text
// form (plan_text.h), the JSON form (search/text/plan_json.h), the protobuf message (proto/convert), the
// search space (search/space), notes, help, completion and docs derive from it. Immutable, thread-safe.
//
// Legality rules, and effects on ops, memory, time and program, are written by hand: CONTRIBUTING.md, "A plan
// option", lists every step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// How JSON and protobuf hold the value of an option.
enum class OptionForm : std::uint8_t {
  kSize,    // a whole number of at least 1, below 2^31
  kNumber,  // one of a few whole numbers
  kFlag,    // 0 or 1; in JSON also true or false; in protobuf a bool
  kName,    // one of a few names, or a text form such as full:4
  kSplit,   // even, auto or layers per stage; in JSON also a list
};

struct PlanOption {
  std::string_view name;       // in the text form and on the command line: "mbs"
  std::string_view json_name;  // in JSON, CSV and protobuf: "micro_batch"
  OptionForm form = OptionForm::kSize;
  std::string_view summary;                        // one phrase for help and docs
  std::span<const std::string_view> choices = {};  // values as text; empty for sizes (StandsForMany)
  std::string_view default_note = {};              // what the default depends on; empty: nothing
  // Values that the cost model predicts; empty: all. A flag or a number is predicted at its default alone
  // unless its row says more.
  std::span<const std::string_view> predicted = {};
  std::span<const std::string_view> run = {};  // values that the engine runs; empty: all predicted ones
  // A search that `--space` does not tell otherwise goes through every value that it can predict or run;
  // false: its default alone.
  bool searched = false;
  // A search does not go through its values: of plans that are else the same, it takes the fastest one that
  // fits. Other values than the default take no less memory. `--space` may name values to go through.
  bool derived = false;
  // Searched only on clusters whose collectives run beside computes (HidesCollectives).
  bool needs_hiding = false;
  // Whether another value takes the same memory and at most the same predicted time in this plan, on such
  // clusters; latencies of many small collectives aside. A search goes through a covered value only if
  // `--space` names the option. Null: no value is. May read what `redundant` may.
  bool (*covered)(const ParallelPlan& plan) = nullptr;
  bool overlaps = false;        // only says how communication runs beside compute or other communication
  bool always_printed = false;  // in the text form, at its default too

  // The value in the text form.
  std::string (*print)(const ParallelPlan& plan) = nullptr;
  // Sets the value from the text form. InvalidArgument with the subject "plan" and the option's name.
  absl::Status (*parse)(const PlanOption& option, std::string_view value, ParallelPlan& plan) = nullptr;
  // Copies the option's fields, and tells whether they are equal.
  void (*copy)(const ParallelPlan& from, ParallelPlan& to) = nullptr;
  bool (*equal)(const ParallelPlan& a, const ParallelPlan& b) = nullptr;
  // Returns why a value other than the default changes nothing in this plan, as the end of a sentence that
  // begins with the option ("has nothing to act on at tp=1"); empty if it does. Null: it always does. May
  // read tp, pp, dp and the options of earlier rows but recompute: a search asks it before it sets the
  // others. Of the options after recompute, neither `redundant` nor `covered` may read mbs, vpp, schedule or
  // split: a search asks once for all plans of a mesh. Recompute, which a search sets last, may read
  // attention alone. A value that no search has (dp_shard=1) may be read anywhere.
  std::string_view (*redundant)(const ParallelPlan& plan) = nullptr;
  // Sets the value that a redundant one stands for. Null: the default.
  void (*simplify)(ParallelPlan& plan) = nullptr;
};

// Whether a choice is a form that stands for many values: full:K, selective:NAMES.
constexpr bool StandsForMany(std::string_view choice) {
  const std::size_t colon = choice.find(':');
  return colon != std::string_view::npos && colon + 1 < choice.size() && choice[colon + 1] >= 'A' &&
         choice[colon + 1] <= 'Z';
}

using PlanOptionTable = std::span<const PlanOption>;

// All options, in the order in which text and JSON print them.
PlanOptionTable PlanOptions();

// The option with this text or JSON name; null if there is none.
const PlanOption* FindPlanOption(std::string_view name, PlanOptionTable options = PlanOptions());

// "tp", "pp", ... and "tp", ..., "micro_batch", ....
std::vector<std::string> TextNames(PlanOptionTable options);
std::vector<std::string> JsonNames(PlanOptionTable options);

// Sets the options that a plan leaves out to defaults that depend on others: schedule, to interleaved if
// virtual_stages is above 1.
void SetDependentDefaults(ParallelPlan& plan);

// Leaves out a dp_shard that says its default: dp with zero, 1 without. Readers of plans call it, so that
// equal plans compare equal.
void DropRestatedDefaults(ParallelPlan& plan);

// Names of values, as in the text form.
std::string_view Name(Schedule schedule);
std::string_view Name(Attention attention);
std::string RecomputeText(const ParallelPlan& plan);  // none, selective, selective:mlp+norm, full, full:K
std::string SplitText(const ParallelPlan& plan);      // even, auto, 9+8+8+7

// Returns notes on options whose value changes nothing in this plan (sp=1 at tp=1, a schedule at pp=1, ...).
// There are some exactly if Canonical changes the plan.
std::vector<std::string> Notes(const ParallelPlan& plan, PlanOptionTable options = PlanOptions());

// Returns the plan with every such option at its default. Requires a legal plan. Options that only the model
// can judge stay: full:K for stages of at most K layers means full, but a search never has both
// (search/space).
ParallelPlan Canonical(const ParallelPlan& plan, PlanOptionTable options = PlanOptions());

// Unimplemented, naming the first option whose value the table does not say that the cost model predicts, or
// the engine runs. A table may have values that are predicted only.
absl::Status CheckPredictable(const ParallelPlan& plan, PlanOptionTable options = PlanOptions());
absl::Status CheckEngineSupports(const ParallelPlan& plan, PlanOptionTable options = PlanOptions());

}  // namespace autocfg
