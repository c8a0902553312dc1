#include "search/space/search_space.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "base/suggest.h"
#include "base/utf8.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/text/plan_text.h"

namespace autocfg {
namespace {

// Every axis of a plan by its text name; the first ten can be searched, the others are fixed at their default
// for now.
const std::vector<std::string>& AxisNames() {
  static const std::vector<std::string> names = {
      "tp",         "pp",    "dp",         "mbs",          "schedule",
      "vpp",        "split", "recompute",  "attention",    "scatter_gather",
      "sp",         "zero",  "tp_overlap", "grad_overlap", "param_overlap",
      "p2p_overlap"};
  return names;
}
constexpr std::ptrdiff_t kSearchedAxes = 10;

// The JSON names of axes whose text name differs.
std::string_view TextName(std::string_view name) {
  if (name == "micro_batch") return "mbs";
  if (name == "virtual_stages") return "vpp";
  if (name == "sequence_parallel") return "sp";
  if (name == "zero_stage") return "zero";
  return name;
}

// As `status` of a plan's option, said of the space.
absl::Status OfSpace(const absl::Status& status) {
  std::string_view message(status.message().data(), status.message().size());
  if (message.substr(0, 6) == "plan: ") message.remove_prefix(6);
  return absl::Status(status.code(), fmt::format("space: {}", message));
}

std::vector<std::int64_t> Divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

template <typename T>
void SortUnique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

bool Contains(const std::vector<std::int64_t>& sorted, std::int64_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

bool AllEqual(const std::vector<std::int64_t>& split) {
  return std::all_of(split.begin(), split.end(),
                     [&](std::int64_t layers) { return layers == split.front(); });
}

}  // namespace

absl::Status SearchSpace::SetAxis(std::string_view name, const std::vector<std::string>& values,
                                  bool predict_only) {
  const auto axis = std::find(AxisNames().begin(), AxisNames().end(), name);
  const bool searched = axis - AxisNames().begin() < kSearchedAxes;
  // each with one value set, on a layout where every option has something to act on
  std::vector<ParallelPlan> plans;
  for (const std::string& value : values) {
    ParallelPlan plan;
    plan.tp = plan.pp = plan.dp = 2;
    const ParallelPlan defaults = plan;
    if (absl::Status status = SetPlanOption(plan, name, value); !status.ok()) return OfSpace(status);
    if (plan.tp < 1 || plan.pp < 1 || plan.dp < 1 || plan.micro_batch < 1 || plan.virtual_stages < 1) {
      return absl::InvalidArgumentError(
          fmt::format("space: {}={} must be at least 1", name, Printable(value)));
    }
    const absl::Status allowed = predict_only ? CheckPredictable(plan) : CheckEngineSupports(plan);
    if (!allowed.ok()) return OfSpace(allowed);
    if (!searched && plan != defaults) {
      return absl::UnimplementedError(
          fmt::format("space: {}={} is not supported yet; leave {} out", name, Printable(value), name));
    }
    plans.push_back(std::move(plan));
  }
  const auto collect = [&plans](auto& into, auto field) {
    into.clear();
    for (const ParallelPlan& plan : plans) into.push_back(plan.*field);
    SortUnique(into);
  };
  if (name == "tp") collect(tp_, &ParallelPlan::tp);
  if (name == "pp") collect(pp_, &ParallelPlan::pp);
  if (name == "dp") collect(dp_, &ParallelPlan::dp);
  if (name == "mbs") collect(micro_batch_, &ParallelPlan::micro_batch);
  if (name == "schedule") collect(schedules_, &ParallelPlan::schedule);
  if (name == "vpp") collect(virtual_stages_, &ParallelPlan::virtual_stages);
  if (name == "attention") collect(attention_, &ParallelPlan::attention);
  if (name == "scatter_gather") collect(scatter_gather_, &ParallelPlan::scatter_gather);
  if (name == "split") {
    even_ = auto_ = false;
    for (const ParallelPlan& plan : plans) {
      even_ |= plan.split == SplitMode::kEven;
      auto_ |= plan.split == SplitMode::kAuto;
      if (plan.split == SplitMode::kExplicit) explicit_splits_.push_back(plan.split_layers);
    }
    SortUnique(explicit_splits_);
  }
  if (name == "recompute") {
    for (const ParallelPlan& plan : plans) recompute_.push_back({plan.recompute, plan.recompute_layers});
    SortRecompute(recompute_);
  }
  if (name == "tp") MoveAsideUnusable(tp_);
  if (name == "pp") MoveAsideUnusable(pp_);
  if (name == "dp") MoveAsideUnusable(dp_);
  return absl::OkStatus();
}

void SearchSpace::SortRecompute(std::vector<RecomputeValue>& values) {
  const auto key = [](const RecomputeValue& v) {
    return std::tuple(v.mode, v.mode == Recompute::kFull && v.layers == 0, v.layers);
  };
  std::sort(values.begin(), values.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

void SearchSpace::MoveAsideUnusable(std::vector<std::int64_t>& sizes) {
  unusable_sizes_ += std::erase_if(sizes, [this](std::int64_t size) { return ranks_ % size != 0; });
}

bool SearchSpace::HasPlainSchedule() const {
  return virtual_stages_.front() == 1 && schedules_.front() != Schedule::kInterleaved;
}

bool SearchSpace::HasInterleaved() const {
  return virtual_stages_.back() > 1 && schedules_.back() == Schedule::kInterleaved;
}

absl::Status SearchSpace::CheckCombinations() const {
  bool any = false, any_scheduled = false;
  for (const std::int64_t tp : tp_) {
    for (const std::int64_t pp : pp_) {
      if (ranks_ / tp % pp != 0 || !Contains(dp_, ranks_ / tp / pp)) continue;
      any = true;
      any_scheduled = any_scheduled || HasPlainSchedule() || (pp > 1 && HasInterleaved());
    }
  }
  if (!any) {
    return absl::InvalidArgumentError(
        fmt::format("space: no tp x pp x dp of the values given makes {} ranks; widen one of them", ranks_));
  }
  if (any_scheduled) return absl::OkStatus();
  std::vector<std::string_view> schedules;
  for (const Schedule schedule : schedules_) schedules.push_back(Name(schedule));
  return absl::InvalidArgumentError(fmt::format(
      "space: no plan has schedule={}, vpp={} and pp={}: gpipe and 1f1b take vpp=1, interleaved takes "
      "vpp and pp of at least 2; widen one of them",
      fmt::join(schedules, ","), fmt::join(virtual_stages_, ","), fmt::join(pp_, ",")));
}

absl::StatusOr<SearchSpace> SearchSpace::Create(const ModelSpec& model, const Workload& workload,
                                                std::int64_t ranks, const AxisValues& values,
                                                const SpaceOptions& options) {
  if (absl::Status status = Validate(model); !status.ok()) return status;
  if (absl::Status status = Validate(workload, model); !status.ok()) return status;
  if (ranks < 1)
    return absl::InvalidArgumentError(fmt::format("space: {} ranks; there must be at least 1", ranks));
  SearchSpace space;
  space.model_ = model;
  space.workload_ = workload;
  space.ranks_ = ranks;
  space.tp_ = space.pp_ = space.dp_ = Divisors(ranks);
  space.micro_batch_ = Divisors(workload.global_batch);
  space.virtual_stages_ = Divisors(model.layers);
  space.schedules_ = {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kInterleaved};
  if (options.predict_only && options.described) space.scatter_gather_ = {false, true};

  std::set<std::string_view> named;
  for (const auto& [axis, axis_values] : values) {
    const std::string_view name = TextName(axis);
    if (std::find(AxisNames().begin(), AxisNames().end(), name) == AxisNames().end()) {
      return absl::InvalidArgumentError(
          fmt::format("space: unknown axis {}{}", Printable(axis), DidYouMean(axis, AxisNames())));
    }
    if (!named.insert(name).second)
      return absl::InvalidArgumentError(fmt::format("space: {} is named twice", name));
    if (axis_values.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("space: {} has no values; give them as {}=V1,V2", name, name));
    }
    if (absl::Status status = space.SetAxis(name, axis_values, options.predict_only); !status.ok())
      return status;
  }
  if (absl::Status status = space.CheckCombinations(); !status.ok()) return status;
  return space;
}

bool SearchSpace::HoldsSplit(const ParallelPlan& plan) const {
  const auto stages = static_cast<std::size_t>(plan.pp * plan.virtual_stages);
  if (plan.split == SplitMode::kEven) {
    return even_ || std::any_of(explicit_splits_.begin(), explicit_splits_.end(),
                                [&](const auto& split) { return split.size() == stages && AllEqual(split); });
  }
  return std::binary_search(explicit_splits_.begin(), explicit_splits_.end(), plan.split_layers);
}

std::vector<SearchSpace::SplitChoice> SearchSpace::SplitChoices(std::int64_t pp,
                                                                std::int64_t virtual_stages) const {
  const std::int64_t layers = model_.layers;
  const bool fits = virtual_stages <= layers / pp;  // a layer for each stage
  const std::int64_t stages = fits ? pp * virtual_stages : 0;
  const bool divides = fits && layers % stages == 0;
  std::vector<SplitChoice> choices;
  bool even = even_ || (pp == 1 && auto_);  // at pp=1 there is nothing to balance
  for (const std::vector<std::int64_t>& split : explicit_splits_) {
    even = even || (divides && static_cast<std::int64_t>(split.size()) == stages && AllEqual(split) &&
                    split.front() == layers / stages);
  }
  if (even) choices.push_back({SplitMode::kEven, 0, divides ? layers / stages : 0});
  if (auto_ && pp > 1) choices.push_back({SplitMode::kAuto, 0, fits ? (layers + stages - 1) / stages : 0});
  for (std::size_t i = 0; i < explicit_splits_.size(); ++i) {
    const std::vector<std::int64_t>& split = explicit_splits_[i];
    const bool adds_up = fits && static_cast<std::int64_t>(split.size()) == stages &&
                         std::accumulate(split.begin(), split.end(), std::int64_t{0}) == layers;
    if (adds_up && AllEqual(split)) continue;  // stands for even
    choices.push_back({SplitMode::kExplicit, i, adds_up ? *std::max_element(split.begin(), split.end()) : 0});
  }
  return choices;
}

SearchSpace::RecomputeChoices SearchSpace::MakeRecomputeChoices(Attention attention,
                                                                std::int64_t most_layers) const {
  RecomputeChoices choices;
  if (recompute_.empty()) {
    choices.values = {{Recompute::kNone, 0}};
    for (std::int64_t k = 1; k < most_layers; ++k) choices.values.push_back({Recompute::kFull, k});
    choices.values.push_back({Recompute::kFull, 0});
    return choices;
  }
  for (RecomputeValue value : recompute_) {
    if (value.mode == Recompute::kSelective && attention == Attention::kFused) value.mode = Recompute::kNone;
    if (most_layers > 0 && value.layers > most_layers) {
      ++choices.too_many;
      continue;
    }
    if (most_layers > 0 && value.layers == most_layers) value.layers = 0;
    choices.values.push_back(value);
  }
  SortRecompute(choices.values);
  return choices;
}

SearchSpace::Counts SearchSpace::ForEachLegal(const std::function<bool(const ParallelPlan&)>& visit) const {
  using enum IllegalReason;
  Counts counts;
  const auto illegal = [&counts](IllegalReason reason, std::int64_t plans) {
    counts.enumerated += plans;
    counts.illegal[static_cast<std::size_t>(reason)] += plans;
  };
  illegal(kRanksNotDivisible, unusable_sizes_);
  std::map<std::pair<Attention, std::int64_t>, RecomputeChoices> recompute_choices;
  const auto choices_of = [&](Attention attention, std::int64_t most_layers) -> const RecomputeChoices& {
    const auto [it, made] = recompute_choices.try_emplace({attention, most_layers});
    if (made) it->second = MakeRecomputeChoices(attention, most_layers);
    return it->second;
  };

  ParallelPlan plan;
  // All that is left to go through under a schedule, virtual stages and a split. `wrong`: the first rule that
  // they break, in FindIllegality's order.
  const auto visit_variants = [&](std::optional<IllegalReason> wrong, std::int64_t most_layers) {
    for (const Attention attention : attention_) {
      plan.attention = attention;
      const RecomputeChoices& recompute = choices_of(attention, most_layers);
      bool before = false;
      for (const bool asked : scatter_gather_) {
        plan.scatter_gather = asked && plan.tp > 1 && plan.pp > 1;
        if (asked && !plan.scatter_gather && before) continue;  // has nothing to act on: the same plan again
        before = true;
        if (wrong) {
          illegal(*wrong, static_cast<std::int64_t>(recompute.values.size()) + recompute.too_many);
          continue;
        }
        illegal(kRecomputeLayersTooMany, recompute.too_many);
        for (const RecomputeValue& value : recompute.values) {
          plan.recompute = value.mode;
          plan.recompute_layers = value.layers;
          ++counts.enumerated;
          if (!visit(plan)) return false;
        }
      }
    }
    return true;
  };

  for (const std::int64_t tp : tp_) {
    plan.tp = tp;
    std::optional<IllegalReason> wrong_tp;
    if (model_.ffn_hidden % tp != 0) wrong_tp = kFfnNotDivisible;
    if (model_.kv_heads % tp != 0) wrong_tp = kKvHeadsNotDivisible;
    if (model_.heads % tp != 0) wrong_tp = kHeadsNotDivisible;
    for (const std::int64_t pp : pp_) {
      if (ranks_ / tp % pp != 0 || !Contains(dp_, ranks_ / tp / pp)) continue;
      plan.pp = pp;
      plan.dp = ranks_ / tp / pp;
      std::vector<std::pair<std::int64_t, std::vector<SplitChoice>>> splits;  // by virtual stages
      for (const std::int64_t vpp : virtual_stages_) {
        if (vpp == 1 || pp > 1) splits.emplace_back(vpp, SplitChoices(pp, vpp));
      }
      for (const std::int64_t micro_batch : micro_batch_) {
        plan.micro_batch = micro_batch;
        const bool batch_divides =
            workload_.global_batch % plan.dp == 0 && workload_.global_batch / plan.dp % micro_batch == 0;
        bool scheduled = false;
        for (const Schedule schedule : schedules_) {
          const bool interleaved = schedule == Schedule::kInterleaved;
          if (pp == 1 && (interleaved || scheduled)) continue;
          plan.schedule = pp == 1 ? Schedule::kOneFOneB : schedule;
          scheduled = true;
          std::optional<IllegalReason> wrong = wrong_tp;
          if (!wrong && !batch_divides) wrong = kBatchNotDivisible;
          if (!wrong && interleaved && MicrobatchCount(workload_, plan) % pp != 0) {
            wrong = kMicrobatchesNotMultipleOfStages;
          }
          for (const auto& [vpp, choices] : splits) {
            if ((vpp > 1) != interleaved) continue;
            plan.virtual_stages = vpp;
            for (const SplitChoice& split : choices) {
              plan.split = split.mode;
              plan.split_layers.clear();
              if (split.mode == SplitMode::kExplicit)
                plan.split_layers = explicit_splits_[split.explicit_index];
              std::optional<IllegalReason> reason = wrong;
              if (split.most_layers == 0) {
                if (split.mode == SplitMode::kEven) reason = kLayersNotDivisible;  // found before all others
                if (!reason) reason = kSplitDoesNotAddUp;
              }
              if (!visit_variants(reason, split.most_layers)) return counts;
            }
          }
        }
      }
    }
  }
  return counts;
}

}  // namespace autocfg
