// The plans of a search: bounds per axis, enumerated lazily in a fixed order. Immutable, thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/plan/legality.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/plan_options.h"
#include "search/plan/workload.h"

namespace autocfg {

// Allowed values per axis, by the names of a plan's text ("tp", "mbs", "schedule", ...).
using AxisValues = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct SpaceOptions {
  bool predict_only = false;  // nothing will be run: values that can only be predicted are allowed
  // Collectives run beside computes: otherwise options that need this keep their default unless named.
  bool hides_collectives = false;
  // Where layers are on stages is not free: no split is even but those that are named.
  bool splits_itself = false;
  PlanOptionTable table = PlanOptions();
  // Of the framework that the search is for (search/frameworks/framework_rules.h): plans that break one are
  // not in the space. Empty: all plans are.
  std::span<const LegalityRule> framework = {};
};

// Parses "AXIS=V1,V2", such as "tp=1,2", and bounds, such as "tp<=4", whose value is "<=4". InvalidArgument,
// with the subject "space": a text of another form, an empty value, an axis named twice. Axes and values are
// checked by SearchSpace::Create.
absl::StatusOr<AxisValues> ParseAxisValues(const std::vector<std::string>& texts);

class SearchSpace {
  class Enumeration;

 public:
  // Axes are the options of the table, by their text or JSON names. Axes that are not named take: tp, pp, dp
  // the divisors of `ranks`; mbs the divisors of the global batch; schedule all that can be predicted or run;
  // vpp 1 (gpipe, 1f1b) and the divisors of the layers from 2 on (interleaved); every other option its
  // default, or all values if its row says so (PlanOption::searched, needs_hiding).
  //
  // split, recompute and the options whose row says so (PlanOption::derived) are derived unless they are
  // named: a plan of the space leaves them open, and the caller chooses (Alternative). The splits are even
  // and auto. The depths of recompute are none, full:K for every K (at most kMostDerivedDepths of them) below
  // the layers of the plan's largest stage (of an even spread, rounded up, under split=auto), and full.
  // Beside them are all sets of parts that a layer can recompute (selective:NAMES).
  //
  // A value may be a range (axis_ranges.h): "1-4", or alone "<=4", ">=2", "<8", ">1". Of a size it holds
  // those that the axis takes if it is not named (dp_shard: divisors of `ranks`), else the choices of the
  // row. recompute also takes "full:*": full:K for every K as above, and full. Named values of derived
  // options are enumerated as those of other options are.
  //
  // InvalidArgument, with the subject "space", names an unknown axis (with the nearest names), an axis named
  // twice, a value that it does not take, sizes none of which make up `ranks`, or schedules none of which go
  // with the vpp and pp allowed. A size that does not divide `ranks` beside ones that do is counted as
  // illegal (ranks_not_divisible), so that one space serves clusters of any size. Unimplemented names a value
  // that is not predicted or, unless `options.predict_only`, not run yet.
  static absl::StatusOr<SearchSpace> Create(const ModelSpec& model, const Workload& workload,
                                            std::int64_t ranks, const AxisValues& values,
                                            const SpaceOptions& options = {});

  struct Counts {
    std::int64_t enumerated = 0;
    std::array<std::int64_t, kIllegalReasonCount> illegal{};
    std::int64_t cases = 0;  // as of GoOn, those since it was last asked left out
    // The sizes at which `visit` or `go_on` ended the enumeration, if one of them did.
    std::optional<MeshOptions> ended_at = {};
  };
  // Decides whether a pass over the space goes on. Asked once per kCasesPerLook cases: combinations of all
  // options but recompute, legal or not.
  using GoOn = std::function<bool(const Counts&)>;
  static constexpr std::int64_t kCasesPerLook = 4096;

  // What each range was read as: "tp<=4 is tp=1,2,4".
  const std::vector<std::string>& RangeTexts() const { return ranges_; }

  // Called with an illegal plan and the first rule that it breaks, in the order of the space. Before all
  // others, once for each size that divides no layout of all ranks, with the other sizes at 1. Returns
  // whether to be called again.
  using VisitIllegal = std::function<bool(const ParallelPlan&, IllegalReason)>;

  // Calls `visit` for every legal plan of the space in canonical form, each once, until it or `go_on` returns
  // false. Derived options have the first values that are legal.
  // Counts the illegal ones by the first rule that they break (FindIllegality): many at once, unless
  // `visit_illegal` is to see each. The rules of a framework count as kNotExpressible, and come before
  // kRecomputeLayersTooMany; those that read recompute come last. A plan with derived options is illegal if
  // all its alternatives are, by the rule of the one that comes furthest; rules that read options other than
  // split among the derived ones come last. `enumerated` counts both.
  // All plans use all ranks: tp*pp*dp == ranks. split=auto is visited as such.
  //
  // Order, the last changes fastest: tp, pp, mbs ascending; gpipe, 1f1b, interleaved; vpp ascending; even,
  // auto, explicit splits; the other options in the order of the table, each in the order of its values;
  // recompute none, selective by its parts, full:1, full:2, ..., full.
  //
  // Not in the space, and not counted: gpipe or 1f1b with vpp above 1, interleaved with vpp or pp of 1. At
  // pp=1 there is one schedule (1f1b; in the space if gpipe or 1f1b and vpp=1 are) and one split. Values that
  // are redundant in a plan stand for the default. By default values that are covered are left out, unless
  // the framework cannot express any that covers them. full:K
  // with the K of a stage's layers stands for full, an explicit split of equal stages for even. If a split
  // cannot be laid out at all, K is not gone through.
  Counts ForEachLegal(const std::function<bool(const ParallelPlan&)>& visit, const GoOn& go_on = {},
                      const VisitIllegal& visit_illegal = {}) const;

  // The most depths full:K of a plan, so that planning is as fast for models of very many layers. A stage
  // with more layers has every second K, or third, and so on. Published models have at most 128 layers.
  static constexpr std::int64_t kMostDerivedDepths = 128;

  // A value of recompute.
  struct RecomputeValue {
    Recompute mode = Recompute::kNone;
    std::int64_t layers = 0;                            // kFull: the first so many of a stage; 0 = all
    LayerParts parts = LayerOptions().recompute_parts;  // kSelective

    static RecomputeValue Of(const ParallelPlan& plan) {
      return {plan.recompute, plan.recompute_layers, plan.recompute_parts};
    }
    void SetIn(ParallelPlan& plan) const {
      plan.recompute = mode;
      plan.recompute_layers = layers;
      plan.recompute_parts = parts;
    }
    bool operator==(const RecomputeValue&) const = default;
  };
  // A legal plan, with one combination of values of the derived options, but for its recompute: one of these
  // values, all of them legal. Of `depths`, those that recompute less come first; there is one if recompute
  // is named. `parts` are values of selective; none if recompute is named.
  struct Alternative {
    ParallelPlan plan;
    std::span<const RecomputeValue> depths;
    std::span<const RecomputeValue> parts;
  };
  // A plan of the space with all its alternatives: one if nothing but recompute is derived. Returns whether
  // the plan was taken: if not, the walk ends.
  using VisitPlan = std::function<bool(std::span<const Alternative>)>;

  // As ForEachLegal, with the alternatives of each plan. A plan that `visit` did not take is not counted.
  Counts ForEachPlan(const VisitPlan& visit, const GoOn& go_on = {},
                     const VisitIllegal& visit_illegal = {}) const;

  // Returns whether the split of `plan` (even or explicit) is among those of the space at the plan's number
  // of stages.
  bool HoldsSplit(const ParallelPlan& plan) const;

  bool DerivesRecompute() const { return recompute_derived_; }

  // Returns the legal values of recompute, if they are derived, that may take less memory than that of a plan
  // of the space: depths that recompute more, or all if its own is none of them, and sets of parts. With
  // split=auto in place of a split that the space does not hold.
  struct Deeper {
    ParallelPlan plan;
    std::vector<RecomputeValue> depths, parts;
  };
  Deeper DeeperThan(const ParallelPlan& plan) const;

  // Returns the values of selective that are derived, one for each set of parts that act under this
  // attention.
  const std::vector<RecomputeValue>& PartChoices(Attention attention) const {
    return parts_[static_cast<std::size_t>(attention)];
  }

 private:
  // A split of one layout, and the layers of its largest stage.
  struct SplitChoice {
    SplitMode mode = SplitMode::kEven;
    std::size_t explicit_index = 0;
    std::int64_t most_layers = 0;  // 0: it cannot be laid out
  };
  // An option that is neither a size nor bound to the layout, with its values: plans that hold each of them.
  struct VariantAxis {
    const PlanOption* option = nullptr;
    std::vector<ParallelPlan> values;
    bool leaves_out_covered = false;  // PlanOption::covered
    bool derived = false;             // PlanOption::derived, and not named
  };

  absl::Status SetAxis(const PlanOption& option, const std::vector<std::string>& given);
  // The sizes that an axis of sizes has if it is not named, ascending; of dp_shard, the divisors of `ranks`.
  std::vector<std::int64_t> DefaultSizes(const PlanOption& option) const;
  void SetScheduleDefaults();
  void SetVariantDefaults();
  void SetPartDefaults();
  absl::Status CheckCombinations() const;
  void MoveAsideUnusable(std::size_t axis);
  // Calls visit(mesh) for each mesh of all ranks, in order, until it returns false; then returns false.
  template <typename Visit>
  bool ForEachMesh(const Visit& visit, MeshOptions mesh = {}, std::size_t axis = 0) const {
    if (axis == kAxisCount) {
      const std::optional<MeshOptions> all = WithDataRanks(mesh, ranks_);
      const std::vector<std::int64_t>& sizes = sizes_[static_cast<std::size_t>(Axis::kData)];
      const bool held = all && std::binary_search(sizes.begin(), sizes.end(), SizeOf(*all, Axis::kData));
      return !held || visit(*all);
    }
    if (kAxes[axis].axis == Axis::kData) return ForEachMesh(visit, mesh, axis + 1);
    return std::all_of(sizes_[axis].begin(), sizes_[axis].end(), [&](std::int64_t size) {
      mesh.*kAxes[axis].size = size;
      return ForEachMesh(visit, mesh, axis + 1);
    });
  }
  bool HasPlainSchedule() const;                              // one of one stage per rank, with vpp = 1
  bool HasVirtualStages() const;                              // one of several, with a vpp of 2 or more
  absl::Status CheckAllowed(const ParallelPlan& plan) const;  // that the search may predict or run it
  std::vector<SplitChoice> SplitChoices(std::int64_t pp, std::int64_t virtual_stages) const;
  std::vector<RecomputeValue> RecomputeChoices(Attention attention, std::int64_t most_layers) const;

  ModelSpec model_;
  Workload workload_;
  SpaceOptions options_;
  std::int64_t ranks_ = 1;
  std::vector<MeshOptions> unusable_sizes_;  // sizes of an axis that divide no layout of all ranks
  // Each ascending. Of the axes, in the order of kAxes.
  std::array<std::vector<std::int64_t>, kAxisCount> sizes_;
  std::vector<std::int64_t> micro_batch_, virtual_stages_;
  std::vector<Schedule> schedules_;
  bool even_ = true, auto_ = true, split_derived_ = true;
  std::vector<std::vector<std::int64_t>> explicit_splits_;
  std::vector<RecomputeValue> recompute_ = {
      RecomputeValue{}};           // beside every full:K, if those are in the space
  bool recompute_every_ = true;    // every full:K, and full
  bool recompute_derived_ = true;  // not named
  std::array<std::vector<RecomputeValue>, kAttentionCount> parts_;  // by attention; empty unless derived
  const PlanOption* recompute_option_ = nullptr;
  std::vector<std::string> ranges_;
  std::vector<VariantAxis> variants_;  // in the order of the table
};

// Returns the names of the options that a search leaves at their default, unless `named` names them.
// `hides_collectives`: as of the cluster (HidesCollectives).
std::vector<std::string_view> OptionsLeftOut(const AxisValues& named, bool hides_collectives);

}  // namespace autocfg
