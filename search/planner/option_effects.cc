#include "search/planner/option_effects.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "search/cost/split.h"
#include "search/plan/legality.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

// The axes and mbs, the first options, which a CompactPlan holds itself.
constexpr std::size_t kPackedSizes = kAxisCount + 1;
using SizeField = std::int64_t ParallelPlan::*;
// A plan is timed rather than estimated up to so many microbatches times ranks of its pipeline.
constexpr std::int64_t kMostTimedHere = std::int64_t{1} << 14;

// Returns the options of a plan that hold other values than the best plan's, as bits; only those that a
// CompactPlan holds itself.
std::uint64_t OtherSizes(const CompactPlan& plan, const ParallelPlan& best) {
  static const std::array<std::uint64_t, kAxisCount> axis_bits = [] {
    std::array<std::uint64_t, kAxisCount> bits{};
    for (std::size_t i = 0; i < kAxisCount; ++i)
      bits[i] =
          std::uint64_t{1} << static_cast<std::size_t>(FindPlanOption(kAxes[i].name) - PlanOptions().data());
    return bits;
  }();
  std::uint64_t bits = plan.micro_batch != best.micro_batch ? std::uint64_t{1} << kAxisCount : 0;
  for (std::size_t i = 0; i < kAxisCount; ++i)
    if (plan.mesh[i] != best.*kAxes[i].size) bits |= axis_bits[i];
  return bits;
}

// What a space's plans say about its options: their values, and which variants have another one than the best
// plan.
struct Survey {
  std::vector<std::vector<ParallelPlan>> values;  // by option: plans that hold each value once
  std::vector<std::uint64_t> differs;             // by variant of the table: a bit for each option
  bool uneven = false;                            // some plan has layers balanced by time
};

// Goes through all plans once. Options other than sizes are compared once for each variant of the table.
Survey SurveyOf(const FeasiblePlans& feasible, const ParallelPlan& best) {
  const PlanOptionTable options = PlanOptions();
  Survey survey;
  survey.values.resize(options.size());
  const auto add_value = [&](std::size_t option, const ParallelPlan& holder) {
    std::vector<ParallelPlan>& values = survey.values[option];
    const auto same = [&](const ParallelPlan& known) { return options[option].equal(known, holder); };
    if (std::none_of(values.begin(), values.end(), same)) values.push_back(holder);
  };
  std::vector<bool> known(feasible.table.variants());
  survey.differs.resize(known.size());
  CompactPlan previous;
  const auto add = [&](const CompactPlan& packed) {
    const auto variant = static_cast<std::size_t>(packed.variant);
    const bool same_sizes = packed.mesh == previous.mesh && packed.micro_batch == previous.micro_batch;
    if (known[variant] && same_sizes) return;
    const ParallelPlan plan = feasible.table.Unpack(packed);
    for (std::size_t option = 0; option < kPackedSizes; ++option) add_value(option, plan);
    previous = packed;
    if (known[variant]) return;
    std::uint64_t bits = 0;
    for (std::size_t option = kPackedSizes; option < options.size(); ++option) {
      // Splits are as many as layouts. Of these, even and the balanced one are tried.
      if (options[option].form != OptionForm::kSplit) add_value(option, plan);
      if (!options[option].equal(plan, best)) bits |= std::uint64_t{1} << option;
    }
    survey.uneven = survey.uneven || plan.split == SplitMode::kExplicit;
    survey.differs[variant] = bits;
    known[variant] = true;
  };
  for (const FeasiblePlan& plan : feasible.plans) {
    add(plan.choice.plan);
    for (const PlanChoice& other : feasible.OthersOf(plan)) add(other.plan);
  }
  return survey;
}

// Returns the fastest plan that has another value of the option than the best plan, the first of those;
// nothing if none takes less than `most_s`.
std::optional<ParallelPlan> FastestOther(CostModel& costs, FeasiblePlans& feasible, const LazyTimes& times,
                                         const Survey& survey, const ParallelPlan& best, std::size_t option,
                                         double most_s) {
  const auto differs = [&](const PlanChoice& choice) {
    const std::uint64_t bits =
        OtherSizes(choice.plan, best) | survey.differs[static_cast<std::size_t>(choice.plan.variant)];
    return (bits >> option) % 2 != 0;
  };
  if (!PlanOptions()[option].derived) {
    const std::vector<TimedPlan> fastest = times.Fastest(
        costs, feasible, 1, [&](const FeasiblePlan& plan) { return differs(plan.choice); }, most_s);
    if (fastest.empty()) return std::nullopt;
    return feasible.PlanAt(fastest.front().index);
  }
  // The choices of a plan differ in derived options alone.
  const auto some_differ = [&](const FeasiblePlan& plan) {
    const std::span<const PlanChoice> others = feasible.OthersOf(plan);
    return differs(plan.choice) || std::any_of(others.begin(), others.end(), differs);
  };
  using ByTime = std::pair<double, std::size_t>;
  std::vector<ByTime> order;
  for (std::size_t i = 0; i < feasible.plans.size(); ++i) {
    if (feasible.plans[i].seconds < most_s && some_differ(feasible.plans[i]))
      order.emplace_back(feasible.plans[i].seconds, i);
  }
  // A heap: few of them are looked at.
  std::make_heap(order.begin(), order.end(), std::greater<>());
  ByTime least(most_s, feasible.plans.size());
  std::optional<ParallelPlan> fastest;
  const auto consider = [&](std::size_t i, const PlanChoice& choice, double factor) {
    if (!differs(choice)) return;
    const ParallelPlan plan = feasible.table.Unpack(choice.plan);
    const std::optional<double> seconds =
        EstimateUnless(costs, plan, factor, [&](double bound_s) { return bound_s > least.first; });
    if (!seconds || ByTime(*seconds, i) >= least) return;
    least = {*seconds, i};
    fastest = plan;
  };
  for (; !order.empty() && order.front().first <= least.first; order.pop_back()) {
    std::pop_heap(order.begin(), order.end(), std::greater<>());
    const std::size_t i = order.back().second;
    const double factor = times.ChoiceFactor(costs, feasible, i);
    consider(i, feasible.plans[i].choice, factor);
    for (const PlanChoice& other : feasible.OthersOf(feasible.plans[i])) consider(i, other, factor);
  }
  return fastest;
}

// vpp acts under the interleaved schedule alone, which has no other numbers of stages.
bool IsIdle(const PlanOption& option, const ParallelPlan& plan) {
  if (option.name == "vpp") return !TakesVirtualStages(plan.schedule);
  return option.redundant != nullptr && !option.redundant(plan).empty();
}

std::string CostText(double costs) { return fmt::format("{:.{}f}%", 100 * costs, costs < 0.0995 ? 1 : 0); }

// Says what it costs to give up the option, without the reason.
std::string CostSentence(const OptionEffect& effect, const ParallelPlan& best) {
  const PlanOption& option = *effect.option;
  const std::string other = fmt::format("{}={}", option.name, option.print(effect.instead));
  const std::string chosen = fmt::format("{}={}", option.name, option.print(best));
  const std::string costs = CostText(effect.costs);
  if (effect.only_this_changed) return fmt::format("{} in place of {} costs {}", other, chosen, costs);
  if (!effect.alone) {
    return fmt::format(
        "no {} has {} in place of {} and is else the same; the fastest one with it, {}, takes {} more",
        effect.alone_is_legal ? "plan that fits" : "legal plan", other, chosen, ShortPlanText(effect.instead),
        costs);
  }
  std::string text =
      fmt::format("{} in place of {} costs {} ({})", other, chosen, costs, ShortPlanText(effect.instead));
  if (effect.costs_alone > effect.costs + kMuchMoreAlone) {
    const std::string alone = option.print(*effect.alone);
    text +=
        fmt::format(", {}{} if nothing else changes", CostText(effect.costs_alone),
                    alone == option.print(effect.instead) ? "" : fmt::format(" ({}={})", option.name, alone));
  }
  return text;
}

// Makes and judges the plans that differ from the best one in one option.
class Alternatives {
 public:
  Alternatives(CostModel& costs, const Survey& survey, const ParallelPlan& best,
               const CorrectionOf& correction)
      : costs_(costs), survey_(survey), best_(best), correction_(correction) {}

  // Returns the plan that is estimated to be the fastest; nothing if none is legal and fits.
  std::optional<ParallelPlan> FastestWithAnother(std::size_t index) {
    option_ = &PlanOptions()[index];
    fastest_.reset();
    least_s_ = std::numeric_limits<double>::infinity();
    some_legal_ = false;
    if (option_->form == OptionForm::kSplit) {
      for (const SplitMode split : {SplitMode::kEven, SplitMode::kAuto}) {
        if (split == SplitMode::kAuto && !survey_.uneven) continue;
        ParallelPlan plan = best_;
        plan.split = split;
        plan.split_layers.clear();
        Try(plan);
      }
      return fastest_;
    }
    for (const ParallelPlan& value : survey_.values[index]) {
      if (option_->equal(value, best_)) continue;
      ParallelPlan plan = best_;
      option_->copy(value, plan);
      TryWithCompanions(plan);
    }
    return fastest_;
  }

  // Returns whether the last call of FastestWithAnother found a legal plan, whether or not it fits.
  bool SomeLegal() const { return some_legal_; }

  double Seconds(const ParallelPlan& plan) { return correction_(plan) * costs_.Estimate(plan).step_time_s; }

 private:
  // Tries the plan with what must change with the option.
  void TryWithCompanions(const ParallelPlan& plan) {
    static constexpr std::array<SizeField, 3> kMesh = {&ParallelPlan::tp, &ParallelPlan::pp,
                                                       &ParallelPlan::dp};
    if (plan.mesh() != best_.mesh()) {
      // Another size of the mesh makes up for the changed one.
      const std::int64_t ranks = RankCount(best_);
      for (const SizeField size : kMesh) {
        if (plan.*size != best_.*size) continue;
        ParallelPlan other = plan;
        other.*size = 1;
        if (ranks % RankCount(other) != 0) continue;
        other.*size = ranks / RankCount(other);
        TryWithSplit(other);
      }
      return;
    }
    const bool several = TakesVirtualStages(plan.schedule);
    if (plan.schedule != best_.schedule && several != (plan.virtual_stages > 1)) {
      if (!several) {
        ParallelPlan other = plan;
        other.virtual_stages = 1;
        return TryWithSplit(other);
      }
      const auto vpp = static_cast<std::size_t>(FindPlanOption("vpp") - PlanOptions().data());
      for (const ParallelPlan& value : survey_.values[vpp]) {
        ParallelPlan other = plan;
        other.virtual_stages = value.virtual_stages;
        if (other.virtual_stages > 1) TryWithSplit(other);
      }
      return;
    }
    ParallelPlan other = plan;
    if (several != (plan.virtual_stages > 1)) other.schedule = DefaultSchedule(plan.virtual_stages);
    if (other.zero_stage == 0) {
      other.dp_shard = 0;
      other.param_overlap = false;
    }
    TryWithSplit(other);
  }

  // Tries the plan with its split, or with a balanced one if there are other stages than those it is for.
  void TryWithSplit(ParallelPlan plan) {
    if (StageCount(plan) != StageCount(best_) || plan.pp != best_.pp) {
      const bool divides = costs_.model().layers % StageCount(plan) == 0;
      plan.split = survey_.uneven && (best_.split != SplitMode::kEven || !divides) ? SplitMode::kAuto
                                                                                   : SplitMode::kEven;
      plan.split_layers.clear();
    }
    Try(plan);
  }

  // Returns whether some plan of the space has each value of this one. Splits follow from the other options.
  bool HasValuesOfTheSpace(const ParallelPlan& plan) const {
    for (std::size_t i = 0; i < PlanOptions().size(); ++i) {
      const PlanOption& option = PlanOptions()[i];
      if (option.form == OptionForm::kSplit || option.equal(plan, best_)) continue;
      const std::vector<ParallelPlan>& values = survey_.values[i];
      if (std::none_of(values.begin(), values.end(),
                       [&](const ParallelPlan& value) { return option.equal(value, plan); }))
        return false;
    }
    return true;
  }

  void Try(const ParallelPlan& plan) {
    if (FindIllegality(costs_.problem().With(plan), RankCount(best_))) return;
    const ParallelPlan resolved = ResolveSplit(costs_, Canonical(plan));
    if (option_->equal(resolved, best_) || !HasValuesOfTheSpace(resolved)) return;
    some_legal_ = true;
    if (!costs_.PredictMemory(resolved).feasible) return;
    const double seconds = Seconds(resolved);
    if (seconds >= least_s_) return;  // also if it is no number
    least_s_ = seconds;
    fastest_ = resolved;
  }

  CostModel& costs_;
  const Survey& survey_;
  const ParallelPlan& best_;
  const CorrectionOf& correction_;
  const PlanOption* option_ = nullptr;
  std::optional<ParallelPlan> fastest_;
  bool some_legal_ = false;
  double least_s_ = 0;
};

std::string PartPhrase(const BreakdownPart& part) {
  if (part.seconds == &Breakdown::tp_comm) return "tensor communication";
  if (part.seconds == &Breakdown::pp_comm) return "pipeline communication";
  if (part.seconds == &Breakdown::dp_comm) return "data communication";
  if (part.seconds == &Breakdown::bubble) return "the bubble";
  if (part.seconds == &Breakdown::optimizer) return "the optimizer";
  return std::string(part.label);
}

// Returns whether groups of `span` consecutive ranks lie within nodes.
bool WithinNodes(const ClusterSpec& cluster, std::int64_t span) {
  if (cluster.groups.size() == 1 && cluster.groups.front().nodes == 1) return true;
  return std::all_of(cluster.groups.begin(), cluster.groups.end(),
                     [&](const NodeGroup& group) { return group.gpus_per_node % span == 0; });
}

// Returns a fact that explains why a part of the step grows; empty if there is none.
std::string PlacementFact(const ClusterSpec& cluster, const Workload& workload, const BreakdownPart& grown,
                          const ParallelPlan& best, const ParallelPlan& instead) {
  const auto of_group = [&](CommGroup group) -> std::string {
    const RankMesh::Stride before = RankMesh(best).StrideOf(group), now = RankMesh(instead).StrideOf(group);
    if (WithinNodes(cluster, before.size * before.apart) && !WithinNodes(cluster, now.size * now.apart))
      return fmt::format("its group of {} leaves the node", now.size);
    return now.size > before.size
               ? fmt::format("its group has {} ranks in place of {}", now.size, before.size)
               : "";
  };
  if (grown.seconds == &Breakdown::tp_comm) {
    if (TensorChunks(instead) == 1 && TensorChunks(best) > 1) return "no products hide its sums";
    if (std::string fact = of_group(CommGroup::kTensor); !fact.empty()) return fact;
  }
  if (grown.seconds == &Breakdown::dp_comm) {
    if (OverlapsGradients(best) && !OverlapsGradients(instead)) return "no computes hide its reductions";
    if (OverlapsParameters(best) && !OverlapsParameters(instead)) return "no computes hide its gathers";
    if (std::string fact = of_group(CommGroup::kData); !fact.empty()) return fact;
    if (instead.zero_stage > best.zero_stage)
      return fmt::format("zero={} sends more than zero={}", instead.zero_stage, best.zero_stage);
  }
  if ((grown.seconds == &Breakdown::bubble || grown.seconds == &Breakdown::pp_comm) &&
      OverlapsMessages(best) && !OverlapsMessages(instead) && instead.pp > 1)
    return "no computes hide its messages";
  if (grown.seconds == &Breakdown::bubble && instead.pp > 1) {
    const std::int64_t before = MicrobatchCount(workload, best), now = MicrobatchCount(workload, instead);
    // Of a plain pipeline, the bubble is (pp - 1) / microbatches of the compute (Narayanan et al. 2021,
    // section 2.2.1).
    if ((instead.pp - 1) * before > (best.pp - 1) * now)
      return fmt::format("{} microbatches fill a pipeline of {}, in place of {} one of {}", now, instead.pp,
                         before, best.pp);
  }
  if (grown.seconds == &Breakdown::compute &&
      (RanksThatSplit<Splits::kLayer>(instead) > RanksThatSplit<Splits::kLayer>(best) ||
       instead.micro_batch < best.micro_batch))
    return "its ops are smaller and reach less of the device's peak";
  return "";
}

}  // namespace

std::vector<OptionEffect> EstimateEffects(CostModel& costs, FeasiblePlans& feasible, const ParallelPlan& best,
                                          const CorrectionOf& correction, const LazyTimes& times) {
  const Survey survey = SurveyOf(feasible, best);
  Alternatives alternatives(costs, survey, best, correction);
  const double best_s = alternatives.Seconds(best);
  std::vector<OptionEffect> effects;
  for (std::size_t i = 0; i < PlanOptions().size(); ++i) {
    const PlanOption& option = PlanOptions()[i];
    if (IsIdle(option, best)) continue;
    OptionEffect effect{.option = &option, .instead = {}, .because = {}};
    effect.alone = alternatives.FastestWithAnother(i);
    effect.alone_is_legal = alternatives.SomeLegal();
    double most_s = std::numeric_limits<double>::infinity();
    if (effect.alone) {
      effect.costs_alone = alternatives.Seconds(*effect.alone) / best_s - 1;
      effect.instead = *effect.alone;
      effect.costs = effect.costs_alone;
      effect.only_this_changed = true;
      most_s = costs.Estimate(*effect.alone).step_time_s;
    }
    if (const auto other = FastestOther(costs, feasible, times, survey, best, i, most_s)) {
      const ParallelPlan& instead = *other;
      const double other_costs = alternatives.Seconds(instead) / best_s - 1;
      if (!effect.alone || other_costs < effect.costs) {
        effect.only_this_changed = effect.alone == instead;
        effect.instead = instead;
        effect.costs = other_costs;
      }
    } else if (!effect.alone) {
      continue;
    }
    if (!IsIdle(option, effect.instead)) effects.push_back(std::move(effect));
  }
  return effects;
}

std::optional<OptionEffect> MattersMost(CostModel& costs, FeasiblePlans& feasible, const ParallelPlan& best,
                                        const CorrectionOf& correction, const LazyTimes& times,
                                        std::span<const ParallelPlan> measured) {
  std::vector<OptionEffect> effects = EstimateEffects(costs, feasible, best, correction, times);
  const auto timed = [&](const ParallelPlan& plan) {
    return MicrobatchCount(costs.workload(), plan) <= kMostTimedHere / plan.pp;
  };
  const auto predict = [&](const ParallelPlan& plan, const ParallelPlan& beside) {
    return timed(plan) && timed(beside) ? costs.Predict(plan) : costs.Estimate(plan);
  };
  const auto costs_of = [&](const ParallelPlan& plan) {
    return correction(plan) * predict(plan, best).step_time_s /
               (correction(best) * predict(best, plan).step_time_s) -
           1;
  };
  for (const ParallelPlan& plan : measured) {
    const double plan_costs = costs_of(plan);
    for (OptionEffect& effect : effects) {
      if (effect.option->equal(plan, best) || IsIdle(*effect.option, plan) || plan_costs >= effect.costs)
        continue;
      effect.instead = plan;
      effect.costs = plan_costs;
      effect.only_this_changed = effect.alone == plan;
    }
  }
  std::stable_sort(effects.begin(), effects.end(),
                   [](const OptionEffect& a, const OptionEffect& b) { return a.costs > b.costs; });
  for (OptionEffect& effect : effects) {
    effect.costs = costs_of(effect.instead);
    if (effect.alone) effect.costs_alone = effect.only_this_changed ? effect.costs : costs_of(*effect.alone);
    if (effect.alone && effect.costs_alone < effect.costs) {
      effect.instead = *effect.alone;
      effect.costs = effect.costs_alone;
      effect.only_this_changed = true;
    }
    if (!(effect.costs > 0) || !std::isfinite(effect.costs)) continue;
    const std::string grows =
        WhatGrows(costs.cluster(), costs.workload(), best, predict(best, effect.instead).breakdown,
                  effect.instead, predict(effect.instead, best).breakdown);
    effect.because = CostSentence(effect, best);
    // A correction is one factor for all parts, so it cannot say which of them grows.
    const bool corrected = correction(best) != 1 || correction(effect.instead) != 1;
    if (!grows.empty())
      effect.because += fmt::format(": {}{}", corrected ? "by the uncorrected prediction, " : "", grows);
    return std::move(effect);
  }
  return std::nullopt;
}

std::string WhatGrows(const ClusterSpec& cluster, const Workload& workload, const ParallelPlan& best,
                      const Breakdown& best_parts, const ParallelPlan& instead,
                      const Breakdown& instead_parts) {
  const auto growth = [&](const BreakdownPart& part) {
    return instead_parts.*part.seconds - best_parts.*part.seconds;
  };
  const BreakdownPart& grown = *std::max_element(
      kBreakdownParts.begin(), kBreakdownParts.end(),
      [&](const BreakdownPart& a, const BreakdownPart& b) { return growth(a) < growth(b); });
  if (!(growth(grown) > 0)) return "";
  const std::string text =
      fmt::format("{} takes {} more", PartPhrase(grown), base::SecondsText(growth(grown)));
  const std::string fact = PlacementFact(cluster, workload, grown, best, instead);
  return fact.empty() ? text : fmt::format("{}; {}", text, fact);
}

}  // namespace autocfg
