// The law of plans: which plans are legal, and why the others are not. One table of rules serves the check,
// the explanation and the enumeration of search spaces (search/space). Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "search/plan/plan_options.h"
#include "search/plan/run_view.h"

namespace autocfg {

// The rule that a plan breaks (docs/formats.md, "Plan"), in the order in which rules are checked. Searches
// report how many plans each rule rejects.
enum class IllegalReason : std::uint8_t {
  kSizeNotPositive,
  kTooManyRanks,
  kLayersNotDivisible,
  kHeadsNotDivisible,
  kKvHeadsNotDivisible,
  kFfnNotDivisible,
  kBatchNotDivisible,
  kInterleavedNeedsStages,
  kVirtualStagesNeedInterleaved,
  kMicrobatchesNotMultipleOfStages,
  kParamOverlapNeedsZero,
  kSplitDoesNotAddUp,
  kRecomputeLayersTooMany,
  kSequenceNotDivisible,
  kDpShardNeedsZero,
  kDpNotDivisible,
  kRanksNotDivisible,  // of a search, which uses all ranks; a single plan may use fewer
  kNotExpressible,     // of a search for a training framework (search/frameworks/framework_rules.h)
};
inline constexpr int kIllegalReasonCount = static_cast<int>(IllegalReason::kNotExpressible) + 1;

std::string_view Name(IllegalReason reason);  // "heads_not_divisible", ...

// A plan and what it is judged against.
struct PlanCase : RunView {
  std::int64_t max_ranks;
};

struct LegalityRule {
  IllegalReason reason;
  std::string_view name;
  std::span<const std::string_view> reads;  // names of the options that it depends on (plan_options.h)
  // Requires that the rules before it hold; must not crash if they do not.
  bool (*broken)(const PlanCase& c);
  // "<what is wrong, with the figures>; <what to do>". Requires broken(c).
  std::string (*explain)(const PlanCase& c);
};

// The rules of single plans, in order: reasons 0 to kRanksNotDivisible - 1.
std::span<const LegalityRule> LegalityRules();

struct Illegality {
  IllegalReason reason;
  std::string detail;  // e.g. "12 heads are not divisible by tp=8; give a tp that divides 12"
};

// Returns the first rule that the plan breaks; empty if it is legal.
std::optional<IllegalReason> FindIllegality(const RunView& run, std::int64_t max_ranks);
std::optional<Illegality> ExplainIllegality(const RunView& run, std::int64_t max_ranks);

// Returns InvalidArgument with the subject "plan", naming the plan and the first rule that it breaks, in a
// sentence; OK if it is legal.
absl::Status CheckLegal(const RunView& run, std::int64_t max_ranks);

}  // namespace autocfg
