// The enumeration of a space: which plans it has, in which order, and which rule rejects a plan.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "search/plan/legality.h"
#include "search/space/search_space.h"

namespace autocfg {
namespace {

// The levels of the enumeration, outermost first. A rule is checked at the level that sets the last of the
// options that it reads. From kVariants on there is a level for each further option with several values;
// their combinations are the same for all plans of a mesh.
enum Level : std::size_t { kMesh, kBatch, kSchedule, kVirtualStages, kSplit, kVariants };

std::size_t LevelOf(std::string_view name, const std::vector<std::string_view>& variants) {
  if (FindAxis(name) != nullptr) return kMesh;
  if (name == "mbs") return kBatch;
  if (name == "schedule") return kSchedule;
  if (name == "vpp") return kVirtualStages;
  if (name == "split") return kSplit;
  if (name == "recompute") return kVariants + variants.size();
  const auto found = std::find(variants.begin(), variants.end(), name);
  // An option that is not in the table is never set.
  return found == variants.end() ? kMesh : kVariants + static_cast<std::size_t>(found - variants.begin());
}

bool Reads(const LegalityRule& rule, std::string_view option) {
  return std::find(rule.reads.begin(), rule.reads.end(), option) != rule.reads.end();
}

}  // namespace

// One pass over a space. Levels nest as in `Level`; each sets its options and checks the rules that read no
// later ones. A broken rule does not end a level: an earlier rule that is checked further inside may be the
// one to report. Options that are derived have no level: innermost, all their values are tried together.
class SearchSpace::Enumeration {
 public:
  Enumeration(const SearchSpace& space, const VisitPlan& visit, const GoOn& go_on,
              const VisitIllegal& visit_illegal)
      : space_(space), visit_(visit), go_on_(go_on), visit_illegal_(visit_illegal) {
    std::vector<std::string_view> variants;
    for (const VariantAxis& axis : space.variants_) {
      if (axis.derived) {
        derived_.push_back(&axis);
        continue;
      }
      // An axis of one value has no level: no later value replaces it.
      if (axis.values.size() == 1 && axis.option->equal(axis.values.front(), plan_)) continue;
      variants_.push_back(&axis);
      variants.push_back(axis.option->name);
    }
    rules_at_.resize(kVariants + variants.size() + 1);
    ListRules();
    covering_rules_.resize(variants.size());
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (rules_[i]->reason == IllegalReason::kSizeNotPositive)
        continue;  // a space has no such values (SetAxis)
      ClassifyRule(i, variants);
    }
    if (!rules_at_.back().empty()) first_recompute_rule_ = rules_at_.back().front();
  }

  Counts Run() {
    for (const MeshOptions& mesh : space_.unusable_sizes_)
      CountOne(IllegalReason::kRanksNotDivisible, ParallelPlan(mesh));
    if (!space_.ForEachMesh([&](const MeshOptions& mesh) { return VisitMesh(mesh); }))
      counts_.ended_at = plan_.mesh();
    return counts_;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct SplitCase {
    // One, or those that break none of split_rules_ if the split is derived.
    std::vector<SplitChoice> choices;
    std::size_t broken = kNone;  // the first of split_rules_ that the only one breaks
  };

  // Adds a rule to the list of those that are checked together with it.
  void ClassifyRule(std::size_t i, const std::vector<std::string_view>& variants) {
    const LegalityRule& rule = *rules_[i];
    // Constant for a mesh and a combination of variants; an option that is not in the table is never set.
    const auto is_of_variants = [&](std::string_view name, std::size_t level) {
      return level == kMesh || (level >= kVariants && name != "recompute");
    };
    std::size_t level = 0;
    bool of_layout = true, of_variants = true, of_some_variant = false;
    for (const std::string_view name : rule.reads) {
      const std::size_t of_option = LevelOf(name, variants);
      level = std::max(level, of_option);
      of_layout = of_layout && name != "mbs" && name != "schedule";
      of_variants = of_variants && is_of_variants(name, of_option);
      of_some_variant = of_some_variant || (of_option >= kVariants && name != "recompute");
    }
    const bool of_derived = std::any_of(derived_.begin(), derived_.end(), [&](const VariantAxis* axis) {
      return Reads(rule, axis->option->name);
    });
    if (Reads(rule, "recompute")) {
      recompute_rules_of_layout_ = recompute_rules_of_layout_ && !of_some_variant && !of_derived;
      rules_at_[level].push_back(i);
    } else if (level == kSplit && of_layout && !of_derived) {
      split_rules_.push_back(i);
    } else if (of_derived || (space_.split_derived_ && Reads(rule, "split"))) {
      derived_rules_.push_back(i);
    } else if (level < kVariants) {
      rules_at_[level].push_back(i);
    } else {
      (of_variants ? variant_rules_ : other_variant_rules_).push_back(i);
      if (of_variants && rule.reason == IllegalReason::kNotExpressible)
        covering_rules_[level - kVariants].push_back(i);
    }
  }

  // Fills rules_: those of a framework before the first that reads recompute, so that many of their plans are
  // counted at once, unless they read it themselves.
  void ListRules() {
    const auto reads_recompute = [](const LegalityRule& rule) { return Reads(rule, "recompute"); };
    bool listed = false;
    for (const LegalityRule& rule : LegalityRules()) {
      if (reads_recompute(rule) && !listed) {
        listed = true;
        for (const LegalityRule& own : space_.options_.framework) {
          if (!reads_recompute(own)) rules_.push_back(&own);
        }
      }
      rules_.push_back(&rule);
    }
    for (const LegalityRule& own : space_.options_.framework) {
      if (reads_recompute(own)) rules_.push_back(&own);
    }
  }

  void Count(std::size_t rule, std::int64_t plans) { Count(rules_[rule]->reason, plans); }
  void Count(IllegalReason reason, std::int64_t plans) {
    counts_.enumerated += plans;
    counts_.illegal[static_cast<std::size_t>(reason)] += plans;
  }

  void CountOne(IllegalReason reason, const ParallelPlan& plan) {
    Count(reason, 1);
    if (visit_illegal_ && !visit_illegal_(plan, reason)) visit_illegal_ = nullptr;
  }

  // Returns the first broken rule of this level and of those outside, `before`.
  std::size_t FirstBroken(std::size_t level, std::size_t before) const {
    return FirstBroken(rules_at_[level], before);
  }
  std::size_t FirstBroken(const std::vector<std::size_t>& rules, std::size_t before) const {
    const PlanCase plan_case{{space_.model_, space_.workload_, plan_}, space_.ranks_};
    for (const std::size_t rule : rules) {
      if (rule > before) break;
      if (rules_[rule]->broken(plan_case)) return rule;
    }
    return before;
  }

  // Returns true if no rule that reads recompute is checked before `broken`, so that it is the one to report.
  bool IsDecided(std::size_t broken) const { return broken < first_recompute_rule_; }

  // Counts cases. Returns false if the enumeration must end.
  bool GoesOn(std::int64_t cases = 1) {
    const std::int64_t before = looked_ / kCasesPerLook;
    looked_ += cases;
    for (std::int64_t looks = looked_ / kCasesPerLook - before; looks > 0; --looks) {
      counts_.cases += kCasesPerLook;
      if (go_on_ && !go_on_(counts_)) return false;
    }
    return true;
  }

  // Asks as often while splits are made, which are no cases: a walk may make those of a mesh several times.
  bool MakesOn() { return ++made_ % kCasesPerLook != 0 || !go_on_ || go_on_(counts_); }

  // Each returns false once the visitor has, or GoesOn().
  bool VisitMesh(const MeshOptions& mesh) {
    static_cast<MeshOptions&>(plan_) = mesh;
    combinations_.clear();
    alike_combinations_.clear();
    MakeCombinations(0, kNone);
    return MakeSplits() && std::all_of(space_.micro_batch_.begin(), space_.micro_batch_.end(),
                                       [&](std::int64_t size) { return VisitMicroBatch(size); });
  }

  bool VisitMicroBatch(std::int64_t micro_batch) {
    plan_.micro_batch = micro_batch;
    return VisitSchedules(FirstBroken(kBatch, FirstBroken(kMesh, kNone)));
  }

  // Fills splits_ for the pp at hand. Checks the rules of splits that depend on no microbatch and no
  // schedule.
  bool MakeSplits() {
    splits_.clear();
    for (const std::int64_t vpp : space_.virtual_stages_) {
      if (vpp > 1 && plan_.pp == 1) continue;
      plan_.virtual_stages = vpp;
      std::vector<SplitCase>& cases = splits_.emplace_back(vpp, std::vector<SplitCase>()).second;
      for (const SplitChoice& choice : space_.SplitChoices(plan_.pp, vpp)) {
        if (!MakesOn()) return false;
        SetSplit(choice);
        const std::size_t broken = FirstBroken(split_rules_, kNone);
        if (!space_.split_derived_ || cases.empty()) {
          cases.push_back({{choice}, broken});
        } else if (broken == kNone && cases.front().broken == kNone) {
          cases.front().choices.push_back(choice);
        } else if (broken > cases.front().broken) {  // of those that are illegal, the last rule counts
          cases.front() = {{choice}, broken};
        }
      }
    }
    return true;
  }

  void SetSplit(const SplitChoice& split) {
    plan_.split = split.mode;
    if (split.mode == SplitMode::kExplicit) {
      plan_.split_layers = space_.explicit_splits_[split.explicit_index];
    } else if (!plan_.split_layers.empty()) {
      plan_.split_layers.clear();
    }
  }

  bool VisitSchedules(std::size_t outer) {
    bool scheduled = false;
    for (const Schedule schedule : space_.schedules_) {
      const bool several = TakesVirtualStages(schedule);
      if (plan_.pp == 1 && (several || scheduled)) continue;
      plan_.schedule = plan_.pp == 1 ? DefaultSchedule(1) : schedule;
      scheduled = true;
      const std::size_t broken = FirstBroken(kSchedule, outer);
      for (const auto& [vpp, cases] : splits_) {
        if ((vpp > 1) != several) continue;
        plan_.virtual_stages = vpp;
        if (!VisitSplits(cases, FirstBroken(kVirtualStages, broken))) return false;
      }
    }
    return true;
  }

  bool VisitSplits(const std::vector<SplitCase>& cases, std::size_t outer) {
    for (const SplitCase& c : cases) {
      if (!GoesOn()) return false;
      const std::size_t broken = std::min(outer, c.broken);
      choices_ = &c.choices;
      most_layers_ = c.choices.front().most_layers;
      if (broken != kNone && rules_at_[kSplit].empty() && CountsAtOnce(broken)) {
        if (!CountCombinations(broken)) return false;
        continue;
      }
      SetSplit(c.choices.front());
      if (!VisitCombinations(FirstBroken(kSplit, broken))) return false;
    }
    return true;
  }

  // A combination of values of the options after split.
  struct Combination {
    ParallelPlan values;
    std::size_t broken = kNone;         // the first of variant_rules_ that it breaks
    std::vector<ParallelPlan> derived;  // the combinations of values of derived options beside it, but split
  };
  // How many combinations break a rule first and have this attention, which decides on the values of
  // recompute.
  struct AlikeCombinations {
    std::size_t broken = kNone;
    Attention attention = Attention::kFused;
    std::int64_t count = 0;
  };

  // Makes the combinations of the mesh at hand, in order: whether an option is redundant or covered does not
  // depend on what else a layout has (plan_options.h).
  void MakeCombinations(std::size_t index, std::size_t broken) {
    if (index == variants_.size()) {
      broken = FirstBroken(variant_rules_, broken);
      combinations_.push_back({plan_, broken, {}});
      AddDerived(0, combinations_.back().derived);
      const auto alike = std::find_if(alike_combinations_.begin(), alike_combinations_.end(),
                                      [&](const AlikeCombinations& known) {
                                        return known.broken == broken && known.attention == plan_.attention;
                                      });
      if (alike != alike_combinations_.end()) {
        ++alike->count;
      } else {
        alike_combinations_.push_back({broken, plan_.attention, 1});
      }
      return;
    }
    ForEachValue(
        *variants_[index], [&] { MakeCombinations(index + 1, broken); }, index);
  }

  void AddDerived(std::size_t index, std::vector<ParallelPlan>& combinations) {
    if (index == derived_.size()) {
      combinations.push_back(plan_);
      return;
    }
    ForEachValue(*derived_[index], [&] { AddDerived(index + 1, combinations); });
  }

  // Returns whether a variant's value is covered by another one, which the framework expresses.
  bool IsCovered(std::size_t index) {
    const PlanOption& option = *variants_[index]->option;
    if (!option.covered(plan_)) return false;
    const std::vector<std::size_t>& rules = covering_rules_[index];
    if (rules.empty()) return true;
    const ParallelPlan value = plan_;
    bool covered = false;
    for (const ParallelPlan& other : variants_[index]->values) {
      option.copy(other, plan_);
      covered = covered || (!option.covered(plan_) && FirstBroken(rules, kNone) == kNone);
    }
    option.copy(value, plan_);
    return covered;
  }

  // Returns whether the combinations that break this rule, or an earlier one, are counted without a visit:
  // no rule that is checked for each of them comes before.
  bool CountsAtOnce(std::size_t broken) const {
    const bool first = other_variant_rules_.empty() || broken < other_variant_rules_.front();
    return !visit_illegal_ && first && IsDecided(broken);
  }

  // Counts all combinations of a layout that breaks a rule.
  bool CountCombinations(std::size_t outer) {
    for (const AlikeCombinations& alike : alike_combinations_) {
      Count(std::min(outer, alike.broken), alike.count * PlansOf(RecomputeValues(alike.attention)));
    }
    return variants_.empty() || GoesOn(static_cast<std::int64_t>(combinations_.size()));
  }

  bool VisitCombinations(std::size_t outer) {
    for (std::vector<LegalValues>& of_splits : legal_values_) of_splits.clear();
    // The visitor of illegal plans may end its calls meanwhile.
    const bool at_once = !visit_illegal_;
    const auto is_counted = [&](std::size_t broken) {
      return at_once && outer == kNone && broken != kNone && CountsAtOnce(broken);
    };
    std::int64_t counted = 0;
    for (const AlikeCombinations& alike : alike_combinations_) {
      if (!is_counted(alike.broken)) continue;
      Count(alike.broken, alike.count * PlansOf(RecomputeValues(alike.attention)));
      counted += alike.count;
    }
    if (!GoesOn(counted)) return false;
    for (const Combination& combination : combinations_) {
      if (is_counted(combination.broken)) continue;
      for (const VariantAxis* axis : variants_) axis->option->copy(combination.values, plan_);
      derived_values_ = &combination.derived;
      const std::size_t broken = FirstBroken(other_variant_rules_, std::min(outer, combination.broken));
      if (!VisitRecomputes(broken)) return false;
    }
    return true;
  }

  // The options that are left: recompute, and those that are derived.
  bool VisitRecomputes(std::size_t outer) {
    if (!GoesOn()) return false;
    const std::vector<RecomputeValue>& values = RecomputeValues(plan_.attention);
    if (!visit_illegal_ && IsDecided(outer)) {
      Count(outer, PlansOf(values));
      return true;
    }
    if (space_.recompute_derived_) return VisitDerived(values, outer);
    for (const RecomputeValue& value : values) {
      if (!VisitDerived({&value, 1}, outer)) return false;
    }
    return true;
  }

  // Visits the plan at hand, with all legal values of its derived options, and with those of `depths` that
  // are legal. If none are, the plan is illegal.
  bool VisitDerived(std::span<const RecomputeValue> depths, std::size_t outer) {
    alternatives_.clear();
    made_depths_.clear();
    std::size_t last_broken = outer;
    if (outer == kNone) {
      last_broken = 0;
      for (std::size_t split = 0; split < choices_->size(); ++split) {
        SetSplit((*choices_)[split]);
        AddAlternatives(split, depths, last_broken);
      }
      if (!alternatives_.empty()) {
        if (!visit_(alternatives_)) return false;
        ++counts_.enumerated;
        return true;
      }
    }
    SetSplit(choices_->front());
    SetDepth(depths.front());
    for (const VariantAxis* axis : derived_) axis->option->copy(ParallelPlan(), plan_);
    if (outer != kNone) last_broken = FirstBroken(rules_at_.back(), outer);
    CountOne(rules_[last_broken]->reason, plan_);
    return true;
  }

  // Adds the alternatives of the plan at hand with its split. Raises `last_broken` to the first rule that an
  // illegal one breaks.
  void AddAlternatives(std::size_t split, std::span<const RecomputeValue> depths, std::size_t& last_broken) {
    for (const ParallelPlan& values : *derived_values_) {
      for (const VariantAxis* axis : derived_) axis->option->copy(values, plan_);
      if (const std::size_t broken = FirstBroken(derived_rules_, kNone); broken != kNone) {
        last_broken = std::max(last_broken, broken);
        continue;
      }
      const LegalValues& legal = LegalDepths(split, depths, last_broken);
      if (!legal.depths.empty()) alternatives_.push_back({plan_, legal.depths, legal.parts});
    }
  }

  // Sets each value of the option that is neither redundant nor covered in the plan at hand, the default
  // once, and calls `visit`.
  template <typename Visit>
  void ForEachValue(const VariantAxis& axis, const Visit& visit, std::size_t variant = kNone) {
    static const ParallelPlan defaults;
    const PlanOption& option = *axis.option;
    bool default_visited = false;
    for (const ParallelPlan& value : axis.values) {
      option.copy(value, plan_);
      // A redundant value stands for the default.
      if (option.redundant != nullptr && !option.equal(plan_, defaults) && !option.redundant(plan_).empty())
        option.copy(defaults, plan_);
      if (axis.leaves_out_covered && IsCovered(variant)) continue;
      if (option.equal(plan_, defaults)) {
        if (default_visited) continue;
        default_visited = true;
      }
      visit();
    }
  }

  // Returns the legal ones of the depths, which are the same for all combinations of a layout with this
  // attention and this one of its splits, unless a rule reads more.
  struct LegalValues;
  const LegalValues& LegalDepths(std::size_t split, std::span<const RecomputeValue> depths,
                                 std::size_t& last_broken) {
    const bool kept = recompute_rules_of_layout_ && space_.recompute_derived_;
    std::vector<LegalValues>& of_splits = legal_values_[static_cast<std::size_t>(plan_.attention)];
    if (kept && of_splits.size() <= split) of_splits.resize(choices_->size());
    LegalValues& known = kept ? of_splits[split] : made_depths_.emplace_back();
    if (!known.made) {
      known.made = true;
      for (const RecomputeValue& depth : depths) {
        SetDepth(depth);
        const std::size_t broken = FirstBroken(rules_at_.back(), kNone);
        if (broken == kNone) {
          known.depths.push_back(depth);
        } else {
          known.broken = std::max(known.broken, broken);
        }
      }
      for (const RecomputeValue& value : space_.PartChoices(plan_.attention)) {
        SetDepth(value);
        if (FirstBroken(rules_at_.back(), kNone) == kNone) known.parts.push_back(value);
      }
    }
    last_broken = std::max(last_broken, known.broken);
    return known;
  }

  void SetDepth(const RecomputeValue& value) { value.SetIn(plan_); }

  std::int64_t PlansOf(const std::vector<RecomputeValue>& values) const {
    return space_.recompute_derived_ ? 1 : static_cast<std::int64_t>(values.size());
  }

  const std::vector<RecomputeValue>& RecomputeValues(Attention attention) {
    std::vector<std::vector<RecomputeValue>>& known = recompute_values_[static_cast<std::size_t>(attention)];
    const auto layers = static_cast<std::size_t>(most_layers_);
    if (known.size() <= layers) known.resize(layers + 1);
    std::vector<RecomputeValue>& values = known[layers];  // never empty once made
    if (values.empty()) values = space_.RecomputeChoices(attention, most_layers_);
    return values;
  }

  const SearchSpace& space_;
  const VisitPlan& visit_;
  const GoOn& go_on_;
  VisitIllegal visit_illegal_;      // empty: illegal plans are counted only
  std::int64_t looked_, made_ = 0;  // cases, splits
  // Depths of the layout at hand, by attention, then by its splits.
  struct LegalValues {
    bool made = false;
    std::vector<RecomputeValue> depths, parts;
    std::size_t broken = 0;  // the last of the rules that another value breaks first
  };
  std::array<std::vector<LegalValues>, kAttentionCount> legal_values_;
  std::deque<LegalValues> made_depths_;  // of the plan at hand
  std::vector<Alternative> alternatives_;
  bool recompute_rules_of_layout_ = true;     // they read no option after split but recompute
  std::vector<const LegalityRule*> rules_;    // in order; lists below hold places in it
  std::vector<const VariantAxis*> variants_;  // those with a level
  std::vector<const VariantAxis*> derived_;
  std::vector<std::vector<std::size_t>> rules_at_;  // by level, ascending; none at those of variants
  // Of the variants: that read these and the mesh alone, and the others.
  std::vector<std::size_t> variant_rules_, other_variant_rules_;
  std::vector<std::size_t> derived_rules_;  // that read derived options and not recompute
  // By variant: those of variant_rules_ that are the framework's and read no later option.
  std::vector<std::vector<std::size_t>> covering_rules_;
  std::size_t first_recompute_rule_ = kNone;
  Counts counts_;
  ParallelPlan plan_;
  std::vector<std::size_t> split_rules_;  // those of level kSplit that MakeSplits checks
  std::vector<std::pair<std::int64_t, std::vector<SplitCase>>>
      splits_;                                                 // by virtual stages, of the pp at hand
  const std::vector<SplitChoice>* choices_ = nullptr;          // of the layout at hand
  const std::vector<ParallelPlan>* derived_values_ = nullptr;  // of the combination at hand
  std::int64_t most_layers_ = 0;                               // of its largest stage
  // Those of the mesh at hand, in order; all of them, by the rule that they break.
  std::vector<Combination> combinations_;
  std::vector<AlikeCombinations> alike_combinations_;
  // By attention, then the layers of the largest stage; made when first needed.
  std::array<std::vector<std::vector<RecomputeValue>>, kAttentionCount> recompute_values_;
};

SearchSpace::Counts SearchSpace::ForEachPlan(const VisitPlan& visit, const GoOn& go_on,
                                             const VisitIllegal& visit_illegal) const {
  return Enumeration(*this, visit, go_on, visit_illegal).Run();
}

SearchSpace::Counts SearchSpace::ForEachLegal(const std::function<bool(const ParallelPlan&)>& visit,
                                              const GoOn& go_on, const VisitIllegal& visit_illegal) const {
  ParallelPlan plan;
  const auto visit_first = [&](std::span<const Alternative> alternatives) {
    const Alternative& first = alternatives.front();
    plan = first.plan;
    first.depths.front().SetIn(plan);
    return visit(plan);
  };
  return ForEachPlan(visit_first, go_on, visit_illegal);
}

}  // namespace autocfg
