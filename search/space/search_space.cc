#include "search/space/search_space.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/plan/model_stages.h"
#include "search/space/axis_ranges.h"

namespace autocfg {
namespace {

absl::Status BadSpace(std::string_view problem) {
  return base::SubjectError(absl::StatusCode::kInvalidArgument, "space", problem);
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

// Sorts the values of recompute (none, selective by its parts, full:1, full:2, ..., full) and drops repeated
// ones.
template <typename RecomputeValue>
void SortRecompute(std::vector<RecomputeValue>& values) {
  const auto key = [](const RecomputeValue& v) {
    return std::tuple(v.mode, v.mode == Recompute::kFull && v.layers == 0, v.layers, v.parts);
  };
  std::sort(values.begin(), values.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// Options whose values depend on the layout; the enumeration has a level of its own for each. All other
// options are variants.
constexpr std::string_view kLayoutOptions[] = {"mbs", "schedule", "vpp", "split", "recompute"};

bool IsVariant(const PlanOption& option) {
  if (FindAxis(option.name) != nullptr) return false;
  return std::find(std::begin(kLayoutOptions), std::end(kLayoutOptions), option.name) ==
         std::end(kLayoutOptions);
}

}  // namespace

absl::StatusOr<AxisValues> ParseAxisValues(const std::vector<std::string>& texts) {
  AxisValues space;
  for (const std::string& text : texts) {
    const auto sign = text.find_first_of("=<>");
    if (sign == std::string::npos || sign == 0 || sign + 1 == text.size())
      return BadSpace(fmt::format("'{}' is not AXIS=V1,V2, such as tp=1,2, nor a bound, such as tp<=4",
                                  base::Printable(text)));
    std::string axis = text.substr(0, sign);
    const bool bound = text[sign] != '=';
    if (const char next = text[sign + 1]; !bound && (next == '<' || next == '>')) {
      const std::size_t value = text.find_first_not_of('=', sign + 2);  // "=<=4" has a sign too many
      return BadSpace(fmt::format("'{}' has its signs the wrong way round; write {}{}={}",
                                  base::Printable(text), base::Printable(axis), next,
                                  value == std::string::npos
                                      ? std::string("4")
                                      : base::Printable(std::string_view(text).substr(value))));
    }
    if (std::any_of(space.begin(), space.end(), [&](const auto& known) { return known.first == axis; }))
      return BadSpace(fmt::format("{} is named twice; give all its values at once", base::Printable(axis)));
    std::vector<std::string> values;
    for (std::size_t start = bound ? sign : sign + 1; start <= text.size();) {
      const std::size_t comma = std::min(text.find(',', start), text.size());
      if (comma == start) return BadSpace(fmt::format("'{}' has an empty value", base::Printable(text)));
      values.push_back(text.substr(start, comma - start));
      start = comma + 1;
    }
    if (text.ends_with(',')) return BadSpace(fmt::format("'{}' has an empty value", base::Printable(text)));
    space.emplace_back(std::move(axis), std::move(values));
  }
  return space;
}

std::vector<std::int64_t> SearchSpace::DefaultSizes(const PlanOption& option) const {
  const std::string_view name = option.name;
  if (name == "mbs") return Divisors(workload_.global_batch);
  if (name == "vpp") return Divisors(model_.layers);
  std::vector<std::int64_t> sizes = Divisors(ranks_);
  if (name == "dp_shard") std::erase(sizes, 1);  // shards nothing
  return sizes;
}

absl::Status SearchSpace::SetAxis(const PlanOption& option, const std::vector<std::string>& given) {
  absl::StatusOr<std::vector<std::string>> values = given;
  if (std::any_of(given.begin(), given.end(),
                  [&](const std::string& value) { return IsRange(option, value); })) {
    const bool sized = option.form == OptionForm::kSize;
    values = ExpandRanges(option, given, sized ? DefaultSizes(option) : std::vector<std::int64_t>());
    if (!values.ok()) return values.status();
    ranges_.push_back(RangeText(option, given, *values));
  }
  // Each value in a layout in which every option has something to act on.
  std::vector<ParallelPlan> plans;
  bool every_recompute = false;
  for (const std::string& value : *values) {
    if (option.name == "recompute" && value == kEveryFull) {
      every_recompute = true;
      continue;
    }
    ParallelPlan plan(UniformMesh(2));
    if (absl::Status status = option.parse(option, value, plan); !status.ok())
      return base::WithSubject("space", status);
    const LegalityRule& positive = LegalityRules()[static_cast<std::size_t>(IllegalReason::kSizeNotPositive)];
    if (positive.broken({{model_, workload_, plan}, ranks_}))
      return BadSpace(fmt::format("{}={} must be at least 1", option.name, base::Printable(value)));
    if (plan.dp_shard == 1) return BadSpace("dp_shard=1 shards nothing; give zero=0 in its place");
    if (absl::Status status = CheckAllowed(plan); !status.ok()) return base::WithSubject("space", status);
    plans.push_back(std::move(plan));
  }
  if (IsVariant(option)) {
    auto axis = std::find_if(variants_.begin(), variants_.end(),
                             [&](const VariantAxis& known) { return known.option == &option; });
    axis->values.clear();
    axis->leaves_out_covered = axis->derived = false;
    // In the order of their values: as numbers, else as the choices of the row.
    std::sort(plans.begin(), plans.end());
    for (const ParallelPlan& plan : plans) {
      if (axis->values.empty() || !option.equal(axis->values.back(), plan)) axis->values.push_back(plan);
    }
    return absl::OkStatus();
  }
  const auto collect = [&plans](auto& into, auto field) {
    into.clear();
    for (const ParallelPlan& plan : plans) into.push_back(plan.*field);
    SortUnique(into);
  };
  const std::string_view name = option.name;
  for (std::size_t axis = 0; axis < kAxisCount; ++axis) {
    if (name != kAxes[axis].name) continue;
    collect(sizes_[axis], kAxes[axis].size);
    MoveAsideUnusable(axis);
  }
  if (name == "mbs") collect(micro_batch_, &ParallelPlan::micro_batch);
  if (name == "schedule") collect(schedules_, &ParallelPlan::schedule);
  if (name == "vpp") collect(virtual_stages_, &ParallelPlan::virtual_stages);
  if (name == "split") {
    even_ = auto_ = split_derived_ = false;
    for (const ParallelPlan& plan : plans) {
      even_ |= plan.split == SplitMode::kEven;
      auto_ |= plan.split == SplitMode::kAuto;
      if (plan.split == SplitMode::kExplicit) explicit_splits_.push_back(plan.split_layers);
    }
    SortUnique(explicit_splits_);
  }
  if (name == "recompute") {
    recompute_every_ = every_recompute;
    recompute_derived_ = false;
    parts_ = {};
    recompute_.clear();
    for (const ParallelPlan& plan : plans) {
      if (!every_recompute || plan.recompute != Recompute::kFull)
        recompute_.push_back(RecomputeValue::Of(plan));
    }
    SortRecompute(recompute_);
  }
  return absl::OkStatus();
}

// Sets all schedules that the search can predict or run.
void SearchSpace::SetScheduleDefaults() {
  for (std::size_t i = 0; i < kScheduleCount; ++i) {
    ParallelPlan plan(UniformMesh(2));
    plan.schedule = static_cast<Schedule>(i);
    if (CheckAllowed(plan).ok()) schedules_.push_back(plan.schedule);
  }
}

absl::Status SearchSpace::CheckAllowed(const ParallelPlan& plan) const {
  return options_.predict_only ? CheckPredictable(plan, options_.table)
                               : CheckEngineSupports(plan, options_.table);
}

void SearchSpace::SetVariantDefaults() {
  const ParallelPlan defaults;
  for (const PlanOption& option : options_.table) {
    if (!IsVariant(option)) continue;
    VariantAxis axis{&option, {defaults}};
    // Else nothing would be left where the framework never expresses the default.
    const bool searched =
        option.searched ||
        std::any_of(options_.framework.begin(), options_.framework.end(), [&](const LegalityRule& rule) {
          return rule.reads.size() == 1 && rule.reads.front() == option.name &&
                 rule.broken({{model_, workload_, defaults}, ranks_});
        });
    for (const std::string_view value : option.choices) {
      ParallelPlan plan(UniformMesh(2));  // nothing is redundant
      if (option.needs_hiding && !options_.hides_collectives) continue;
      if (!searched || !option.parse(option, value, plan).ok() || option.equal(plan, defaults)) continue;
      if (CheckAllowed(plan).ok()) axis.values.push_back(std::move(plan));
    }
    axis.derived = option.derived && axis.values.size() > 1;
    axis.leaves_out_covered = option.covered != nullptr && axis.values.size() > 1 && !axis.derived;
    variants_.push_back(std::move(axis));
  }
}

void SearchSpace::SetPartDefaults() {
  for (std::size_t attention = 0; attention < kAttentionCount; ++attention) {
    for (const LayerParts parts : AllLayerParts()) {
      const ParallelPlan plan{{},
                              {.recompute = Recompute::kSelective,
                               .recompute_parts = parts,
                               .attention = static_cast<Attention>(attention)}};
      if (recompute_option_->redundant(plan).empty() && CheckAllowed(plan).ok())
        parts_[attention].push_back(RecomputeValue::Of(plan));
    }
  }
}

void SearchSpace::MoveAsideUnusable(std::size_t axis) {
  const auto unusable = [this](std::int64_t value) { return ranks_ % value != 0; };
  for (const std::int64_t value : sizes_[axis]) {
    if (!unusable(value)) continue;
    MeshOptions mesh;
    mesh.*kAxes[axis].size = value;
    unusable_sizes_.push_back(mesh);
  }
  std::erase_if(sizes_[axis], unusable);
}

bool SearchSpace::HasPlainSchedule() const {
  return virtual_stages_.front() == 1 &&
         !std::all_of(schedules_.begin(), schedules_.end(), TakesVirtualStages);
}

bool SearchSpace::HasVirtualStages() const {
  return virtual_stages_.back() > 1 && std::any_of(schedules_.begin(), schedules_.end(), TakesVirtualStages);
}

absl::Status SearchSpace::CheckCombinations() const {
  bool any = false, any_scheduled = false;
  ForEachMesh([&](const MeshOptions& mesh) {
    any = true;
    any_scheduled = any_scheduled || HasPlainSchedule() || (SplitsDepth(mesh) && HasVirtualStages());
    return true;
  });
  if (!any) {
    return BadSpace(
        fmt::format("no tp x pp x dp of the values given makes {} ranks; widen one of them", ranks_));
  }
  if (any_scheduled) return absl::OkStatus();
  std::vector<std::string_view> named, several;
  for (const Schedule schedule : schedules_) named.push_back(Name(schedule));
  for (std::size_t i = 0; i < kScheduleCount; ++i) {
    const auto schedule = static_cast<Schedule>(i);
    if (TakesVirtualStages(schedule)) several.push_back(Name(schedule));
  }
  return BadSpace(fmt::format(
      "no plan has schedule={}, vpp={} and pp={}: {} takes vpp and pp of at least 2, any other "
      "schedule vpp=1; widen one of them",
      fmt::join(named, ","), fmt::join(virtual_stages_, ","),
      fmt::join(sizes_[static_cast<std::size_t>(Axis::kPipeline)], ","), fmt::join(several, " or ")));
}

absl::StatusOr<SearchSpace> SearchSpace::Create(const ModelSpec& model, const Workload& workload,
                                                std::int64_t ranks, const AxisValues& values,
                                                const SpaceOptions& options) {
  AUTOCFG_RETURN_IF_ERROR(Validate(model));
  AUTOCFG_RETURN_IF_ERROR(Validate(workload, model));
  if (ranks < 1) return BadSpace(fmt::format("{} ranks; there must be at least 1", ranks));
  SearchSpace space;
  space.model_ = model;
  space.workload_ = workload;
  space.options_ = options;
  space.ranks_ = ranks;
  space.recompute_option_ = FindPlanOption("recompute", options.table);
  space.sizes_.fill(Divisors(ranks));
  space.micro_batch_ = Divisors(workload.global_batch);
  space.virtual_stages_ = Divisors(model.layers);
  space.SetScheduleDefaults();
  space.SetVariantDefaults();
  space.SetPartDefaults();
  space.even_ = !options.splits_itself;

  std::set<const PlanOption*> named;
  for (const auto& [axis, axis_values] : values) {
    const PlanOption* option = FindPlanOption(axis, options.table);
    if (option == nullptr) {
      const std::vector<std::string> axes = TextNames(options.table);
      const std::string near = base::DidYouMean(axis, axes);
      return BadSpace(
          fmt::format("unknown axis {}{}", base::Printable(axis),
                      near.empty() ? fmt::format("; expected {}", base::ChoiceText(axes)) : near));
    }
    if (!named.insert(option).second)
      return BadSpace(fmt::format("{} is named twice; give all its values at once", option->name));
    if (axis_values.empty())
      return BadSpace(fmt::format("{} has no values; give them as {}=V1,V2", option->name, option->name));
    AUTOCFG_RETURN_IF_ERROR(space.SetAxis(*option, axis_values));
  }
  AUTOCFG_RETURN_IF_ERROR(space.CheckCombinations());
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

std::vector<SearchSpace::RecomputeValue> SearchSpace::RecomputeChoices(Attention attention,
                                                                       std::int64_t most_layers) const {
  std::vector<RecomputeValue> values;
  for (RecomputeValue value : recompute_) {
    ParallelPlan plan{{}, {.attention = attention}};
    value.SetIn(plan);
    if (value.mode != Recompute::kNone && !recompute_option_->redundant(plan).empty()) {
      recompute_option_->simplify(plan);
      value = RecomputeValue::Of(Canonical(plan, {recompute_option_, 1}));
    }
    if (most_layers > 0 && value.layers == most_layers) value.layers = 0;
    values.push_back(value);
  }
  if (values.size() > 1) SortRecompute(values);
  if (recompute_every_) {  // the last values in their order
    const std::int64_t step =
        recompute_derived_ ? (most_layers + kMostDerivedDepths - 1) / kMostDerivedDepths : 1;
    for (std::int64_t k = step; k < most_layers; k += step)
      values.push_back({.mode = Recompute::kFull, .layers = k});
    values.push_back({.mode = Recompute::kFull});
  }
  return values;
}

SearchSpace::Deeper SearchSpace::DeeperThan(const ParallelPlan& plan) const {
  Deeper deeper{plan, {}, {}};
  if (!recompute_derived_) return deeper;
  ParallelPlan& run = deeper.plan;
  if (!HoldsSplit(plan)) {
    run.split = SplitMode::kAuto;
    run.split_layers.clear();
  }
  const std::int64_t most_layers = run.split == SplitMode::kExplicit
                                       ? *std::max_element(run.split_layers.begin(), run.split_layers.end())
                                       : (model_.layers + StageCount(run) - 1) / StageCount(run);
  const auto is_legal = [&](const RecomputeValue& value) {
    value.SetIn(run);
    const PlanCase plan_case{{model_, workload_, run}, ranks_};
    return std::none_of(options_.framework.begin(), options_.framework.end(),
                        [&](const LegalityRule& rule) { return rule.broken(plan_case); });
  };
  for (const RecomputeValue& value : RecomputeChoices(run.attention, most_layers)) {
    const bool more =
        value.mode == Recompute::kFull &&
        (plan.recompute != Recompute::kFull ||
         (plan.recompute_layers > 0 && (value.layers == 0 || value.layers > plan.recompute_layers)));
    if (more && is_legal(value)) deeper.depths.push_back(value);
  }
  for (const RecomputeValue& value : PartChoices(run.attention)) {
    const bool own = plan.recompute == Recompute::kSelective && plan.recompute_parts.Covers(value.parts);
    if (!own && is_legal(value)) deeper.parts.push_back(value);
  }
  return deeper;
}

std::vector<std::string_view> OptionsLeftOut(const AxisValues& named, bool hides_collectives) {
  std::vector<std::string_view> left_out;
  for (const PlanOption& option : PlanOptions()) {
    if (!IsVariant(option) || (option.searched && (hides_collectives || !option.needs_hiding))) continue;
    const bool is_named =
        std::any_of(named.begin(), named.end(), [&](const auto& axis) { return axis.first == option.name; });
    if (!is_named) left_out.push_back(option.name);
  }
  return left_out;
}

}  // namespace autocfg
