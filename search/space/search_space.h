// The plans of a search: bounds per axis, enumerated lazily in a fixed order. Immutable, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search/plan/legality.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// Allowed values per axis, by the names of a plan's text ("tp", "mbs", "schedule", ...).
using AxisValues = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct SpaceOptions {
  bool predict_only = false;  // nothing will be run: what can be predicted alone is allowed too
  // With predict_only: axes that are not named take it as well. For clusters that are described; of this
  // machine's a plan is wanted that it can run next.
  bool described = false;
};

class SearchSpace {
 public:
  // Axes: tp, pp, dp, mbs, schedule, vpp, split, recompute, attention, scatter_gather (or by their JSON
  // names). Those not named take: tp, pp, dp the divisors of `ranks`; mbs the divisors of the global batch;
  // schedule gpipe, 1f1b and interleaved; vpp 1 (gpipe, 1f1b) and the divisors of the layers from 2 on
  // (interleaved); split even and auto; recompute none, full and full:K for every K below the layers of the
  // plan's largest stage (of an even spread, rounded up, where split=auto); attention fused; scatter_gather
  // 0, of a described cluster that is predicted only 0 and 1.
  //
  // InvalidArgument names an unknown axis (with the nearest names), an axis named twice, a value that it does
  // not take, sizes none of which make up `ranks` (a size that does not divide them beside ones that do is
  // counted as illegal, ranks_not_divisible, so that one space serves clusters of any size), or schedules
  // none of which go with the vpp and pp allowed. Unimplemented names an axis or value that is not predicted
  // or, unless `options.predict_only`, not run yet (the default value alone of such an axis is accepted).
  static absl::StatusOr<SearchSpace> Create(const ModelSpec& model, const Workload& workload,
                                            std::int64_t ranks, const AxisValues& values,
                                            const SpaceOptions& options = {});

  struct Counts {
    std::int64_t enumerated = 0;
    std::array<std::int64_t, kIllegalReasonCount> illegal{};
  };

  // Calls `visit` for every legal plan of the space in canonical form, each once, until it returns false;
  // counts the others by reason (the one that FindIllegality gives). `enumerated` counts legal and illegal
  // ones. Uses all ranks: tp*pp*dp == ranks. split=auto is visited as such.
  //
  // Order, the last changes fastest: tp, pp, mbs ascending; gpipe, 1f1b, interleaved; vpp ascending; even,
  // auto, explicit splits; attention fused, unfused; scatter_gather 0, 1; recompute none, selective, full:1,
  // full:2, ..., full.
  //
  // No plan of a space, and not counted: gpipe or 1f1b with vpp above 1, interleaved with vpp or pp of 1. At
  // pp=1 there is one schedule (1f1b; in the space where gpipe or 1f1b and vpp=1 are) and one split. full:K
  // with the K of a stage's layers stands for full, an explicit split of equal stages for even, selective
  // under fused attention for none. Where a split cannot be laid out at all, K is not gone through.
  Counts ForEachLegal(const std::function<bool(const ParallelPlan&)>& visit) const;

  // Whether the split of `plan` (even or explicit) is among those that the space goes through at the plan's
  // number of stages.
  bool HoldsSplit(const ParallelPlan& plan) const;

 private:
  struct RecomputeValue {
    Recompute mode = Recompute::kNone;
    std::int64_t layers = 0;  // kFull: the first so many of a stage; 0 = all
    bool operator==(const RecomputeValue&) const = default;
  };
  // A split at one layout, and the layers of its largest stage.
  struct SplitChoice {
    SplitMode mode = SplitMode::kEven;
    std::size_t explicit_index = 0;
    std::int64_t most_layers = 0;  // 0: it cannot be laid out
  };
  struct RecomputeChoices {
    std::vector<RecomputeValue> values;
    std::int64_t too_many = 0;  // values of full:K beyond the layers of a stage
  };

  static void SortRecompute(std::vector<RecomputeValue>& values);  // and drops repeated ones
  absl::Status SetAxis(std::string_view name, const std::vector<std::string>& values, bool predict_only);
  absl::Status CheckCombinations() const;
  void MoveAsideUnusable(std::vector<std::int64_t>& sizes);
  bool HasPlainSchedule() const;  // gpipe or 1f1b, with vpp = 1
  bool HasInterleaved() const;    // with a vpp of 2 or more
  std::vector<SplitChoice> SplitChoices(std::int64_t pp, std::int64_t virtual_stages) const;
  RecomputeChoices MakeRecomputeChoices(Attention attention, std::int64_t most_layers) const;

  ModelSpec model_;
  Workload workload_;
  std::int64_t ranks_ = 1;
  std::int64_t unusable_sizes_ = 0;  // values of tp, pp, dp that divide no layout of all ranks
  std::vector<std::int64_t> tp_, pp_, dp_, micro_batch_, virtual_stages_;  // ascending
  std::vector<Schedule> schedules_;
  bool even_ = true, auto_ = true;
  std::vector<std::vector<std::int64_t>> explicit_splits_;
  std::vector<RecomputeValue> recompute_;  // as named; empty: all
  std::vector<Attention> attention_ = {Attention::kFused};
  std::vector<bool> scatter_gather_ = {false};
};

}  // namespace autocfg
