#include "search/space/search_space.h"

#include <algorithm>
#include <set>
#include <span>

#include "fmt/format.h"
#include "search/text/json_util.h"
#include "search/text/plan_text.h"
#include "search/text/suggest.h"

namespace autocfg {
namespace {

// Every axis of a plan by its text name; the first six can be searched, the others are fixed at their default for now.
const std::vector<std::string>& AxisNames() {
  static const std::vector<std::string> names = {
      "tp",        "pp", "dp",   "mbs",        "schedule",     "recompute",     "vpp",         "split",
      "attention", "sp", "zero", "tp_overlap", "grad_overlap", "param_overlap", "p2p_overlap", "scatter_gather"};
  return names;
}

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

}  // namespace

absl::Status SearchSpace::SetAxis(std::string_view name, const std::vector<std::string>& values) {
  const bool searched = name == "tp" || name == "pp" || name == "dp" || name == "mbs" || name == "schedule" ||
                        name == "recompute";
  std::vector<ParallelPlan> plans;  // each with one value set, on a layout where every option has something to act on
  for (const std::string& value : values) {
    ParallelPlan plan;
    plan.tp = plan.pp = plan.dp = 2;
    const ParallelPlan defaults = plan;
    if (absl::Status status = SetPlanOption(plan, name, value); !status.ok()) return OfSpace(status);
    if (plan.tp < 1 || plan.pp < 1 || plan.dp < 1 || plan.micro_batch < 1 || plan.virtual_stages < 1) {
      return absl::InvalidArgumentError(fmt::format("space: {}={} must be at least 1", name, Printable(value)));
    }
    if (absl::Status status = CheckEngineSupports(plan); !status.ok()) return OfSpace(status);
    if (!searched && plan != defaults) {
      return absl::UnimplementedError(
          fmt::format("space: {}={} is not supported yet; leave {} out", name, Printable(value), name));
    }
    plans.push_back(Canonical(plan));
  }
  const auto collect = [&plans](auto& axis, auto field) {
    axis.clear();
    for (const ParallelPlan& plan : plans) axis.push_back(plan.*field);
    SortUnique(axis);
  };
  if (name == "tp") collect(tp_, &ParallelPlan::tp);
  if (name == "pp") collect(pp_, &ParallelPlan::pp);
  if (name == "dp") collect(dp_, &ParallelPlan::dp);
  if (name == "mbs") collect(micro_batch_, &ParallelPlan::micro_batch);
  if (name == "schedule") collect(schedules_, &ParallelPlan::schedule);
  if (name == "recompute") collect(recompute_, &ParallelPlan::recompute);
  if (name == "tp") MoveAsideUnusable(tp_);
  if (name == "pp") MoveAsideUnusable(pp_);
  if (name == "dp") MoveAsideUnusable(dp_);
  return absl::OkStatus();
}

void SearchSpace::MoveAsideUnusable(std::vector<std::int64_t>& sizes) {
  unusable_sizes_ += std::erase_if(sizes, [this](std::int64_t size) { return ranks_ % size != 0; });
}

absl::StatusOr<SearchSpace> SearchSpace::Create(const ModelSpec& model, const Workload& workload, std::int64_t ranks,
                                                const AxisValues& values) {
  if (absl::Status status = Validate(model); !status.ok()) return status;
  if (absl::Status status = Validate(workload, model); !status.ok()) return status;
  if (ranks < 1) return absl::InvalidArgumentError(fmt::format("space: {} ranks; there must be at least 1", ranks));
  SearchSpace space;
  space.model_ = model;
  space.workload_ = workload;
  space.ranks_ = ranks;
  space.tp_ = space.pp_ = space.dp_ = Divisors(ranks);
  space.micro_batch_ = Divisors(workload.global_batch);
  space.schedules_ = {Schedule::kGPipe, Schedule::kOneFOneB};
  space.recompute_ = {Recompute::kNone, Recompute::kFull};

  std::set<std::string_view> named;
  for (const auto& [axis, axis_values] : values) {
    const std::string_view name = TextName(axis);
    if (std::find(AxisNames().begin(), AxisNames().end(), name) == AxisNames().end()) {
      return absl::InvalidArgumentError(
          fmt::format("space: unknown axis {}{}", Printable(axis), DidYouMean(axis, AxisNames())));
    }
    if (!named.insert(name).second) return absl::InvalidArgumentError(fmt::format("space: {} is named twice", name));
    if (axis_values.empty()) {
      return absl::InvalidArgumentError(fmt::format("space: {} has no values; give them as {}=V1,V2", name, name));
    }
    if (absl::Status status = space.SetAxis(name, axis_values); !status.ok()) return status;
  }
  for (const std::int64_t tp : space.tp_) {
    for (const std::int64_t pp : space.pp_) {
      if (ranks / tp % pp == 0 && Contains(space.dp_, ranks / tp / pp)) return space;
    }
  }
  return absl::InvalidArgumentError(
      fmt::format("space: no tp x pp x dp of the values given makes {} ranks; widen one of them", ranks));
}

SearchSpace::Counts SearchSpace::ForEachLegal(const std::function<bool(const ParallelPlan&)>& visit) const {
  static constexpr Schedule kNoPipeline[] = {Schedule::kOneFOneB};  // the canonical one where there is one stage
  Counts counts;
  counts.enumerated = unusable_sizes_;
  counts.illegal[static_cast<std::size_t>(IllegalReason::kRanksNotDivisible)] = unusable_sizes_;
  ParallelPlan plan;
  for (const std::int64_t tp : tp_) {
    plan.tp = tp;
    for (const std::int64_t pp : pp_) {
      if (ranks_ / tp % pp != 0 || !Contains(dp_, ranks_ / tp / pp)) continue;
      plan.pp = pp;
      plan.dp = ranks_ / tp / pp;
      const std::span<const Schedule> schedules = pp == 1 ? std::span<const Schedule>(kNoPipeline) : schedules_;
      for (const std::int64_t micro_batch : micro_batch_) {
        plan.micro_batch = micro_batch;
        for (const Schedule schedule : schedules) {
          plan.schedule = schedule;
          for (const Recompute recompute : recompute_) {
            plan.recompute = recompute;
            ++counts.enumerated;
            if (const auto reason = FindIllegality(model_, workload_, ranks_, plan); reason) {
              ++counts.illegal[static_cast<std::size_t>(*reason)];
            } else if (!visit(plan)) {
              return counts;
            }
          }
        }
      }
    }
  }
  return counts;
}

}  // namespace autocfg
