// Which plans are legal, and why the others are not. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/plan/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// A rule that a plan can break (docs/formats.md, "Plan"); shown as `rejected` counts.
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
  kZero2WithPipeline,
  kSplitDoesNotAddUp,
  kRecomputeLayersTooMany,
  kRanksNotDivisible,  // of a search, which uses all ranks; a plan alone may use fewer
};
inline constexpr int kIllegalReasonCount = static_cast<int>(IllegalReason::kRanksNotDivisible) + 1;

std::string_view Name(IllegalReason reason);  // "heads_not_divisible", ...

struct Illegality {
  IllegalReason reason;
  std::string detail;  // one sentence with the figures, e.g. "12 heads are not divisible by tp=8"
};

// The cheap check that the enumeration runs: no strings. Empty when the plan is legal.
std::optional<IllegalReason> FindIllegality(const ModelSpec& model, const Workload& workload,
                                            std::int64_t max_ranks, const ParallelPlan& plan);
std::optional<Illegality> ExplainIllegality(const ModelSpec& model, const Workload& workload,
                                            std::int64_t max_ranks, const ParallelPlan& plan);

// Notes on options with nothing to act on (sp at tp=1, a schedule at pp=1, selective under fused attention,
// ...) or that say the same as a default: there are some exactly where Canonical changes the plan.
std::vector<std::string> Notes(const ParallelPlan& plan);

// The plan with every option that has nothing to act on set to its default, and an explicit split into equal
// parts made split=even. Requires a legal plan. What only the model can tell is left as it is: full:K where
// no stage has more than K layers says the same as full; the search meets no such pair, since it enumerates K
// below the layers of a stage (search/space).
ParallelPlan Canonical(const ParallelPlan& plan);

// Unimplemented, naming the first option that the cost model does not predict yet.
absl::Status CheckPredictable(const ParallelPlan& plan);

// Unimplemented, naming the first option that the engine does not run yet; some of these are predicted all
// the same.
absl::Status CheckEngineSupports(const ParallelPlan& plan);

// Microbatches per step on one data-parallel rank. Requires a legal plan.
std::int64_t MicrobatchCount(const Workload& workload, const ParallelPlan& plan);

}  // namespace autocfg
