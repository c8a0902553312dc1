#include "cli/question/plan_advice.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/convert/spec_convert.h"
#include "search/frameworks/framework_rules.h"
#include "search/plan/legality.h"
#include "search/plan/plan_options.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_search.h"

namespace autocfg::cli {
namespace {

constexpr std::int64_t kMostSizesOfChange = 64;

std::vector<std::int64_t> DivisorsUpTo(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= std::min(n, most); ++i) {
    if (n % i == 0) divisors.push_back(i);
  }
  return divisors;
}

// The values of an option that a neighbour may have, as text.
std::vector<std::string> ValuesOf(const PlanOption& option, const PlanQuestion& question) {
  const ParallelPlan& plan = question.plan;
  const auto sizes = [](const std::vector<std::int64_t>& numbers) {
    std::vector<std::string> values;
    values.reserve(numbers.size());
    for (const std::int64_t number : numbers) values.push_back(fmt::to_string(number));
    return values;
  };
  if (option.name == "tp" || option.name == "pp")
    return sizes(DivisorsUpTo(RankCount(plan), kMostSizesOfChange));
  if (option.name == "mbs")
    return sizes(DivisorsUpTo(question.about.workload.global_batch / BatchRanks(plan), kMostSizesOfChange));
  if (option.name == "vpp")
    return sizes(
        DivisorsUpTo(question.about.model.layers / RanksThatSplit<Splits::kDepth>(plan), kMostSizesOfChange));
  if (option.name == "dp" || option.name == "dp_shard") return {};
  if (option.name == "split") {
    ParallelPlan balanced;
    balanced.split = SplitMode::kAuto;
    return {SplitText(ParallelPlan()), SplitText(balanced)};
  }
  if (option.name == "recompute") {
    std::vector<std::string> values = {"none", "full"};
    for (const LayerParts parts : AllLayerParts())
      values.push_back(RecomputeText({{}, {.recompute = Recompute::kSelective, .recompute_parts = parts}}));
    const std::int64_t layers = question.about.model.layers / StageCount(plan);
    const std::int64_t step = std::max<std::int64_t>(1, layers / 16);
    for (std::int64_t k = step; k < layers; k += step) values.push_back(fmt::format("full:{}", k));
    return values;
  }
  return {option.choices.begin(), option.choices.end()};
}

std::string ChangeText(const PlanOption& option, const ParallelPlan& before, const ParallelPlan& after) {
  const auto value = [&](const ParallelPlan& plan) {
    std::string text = fmt::format("{}={}", option.name, option.print(plan));
    if (before.dp != after.dp) text += fmt::format(" (dp={})", plan.dp);  // the ranks that are left
    return text;
  };
  return fmt::format("{} in place of {}", value(after), value(before));
}

}  // namespace

std::optional<AdvisedPlan> BestChange(PlanQuestion& question, const PlanPrediction& given) {
  const ParallelPlan& plan = given.plan;
  const std::span<const LegalityRule> rules = FrameworkRules(question.about.cluster.engine.name);
  const std::int64_t ranks = RankCount(plan);
  std::optional<AdvisedPlan> best;
  std::set<ParallelPlan> seen = {Canonical(question.plan), plan};
  for (const PlanOption& option : PlanOptions()) {
    for (const std::string& value : ValuesOf(option, question)) {
      ParallelPlan other = question.plan;
      if (!option.parse(option, value, other).ok()) continue;
      if (option.name == "vpp") other.schedule = DefaultSchedule(other.virtual_stages);
      const std::optional<MeshOptions> mesh = WithDataRanks(other, ranks);
      if (!mesh) continue;
      static_cast<MeshOptions&>(other) = *mesh;
      const PlanCase asked{question.about.With(other), ranks};
      if (FindIllegality(asked, ranks)) continue;
      other = Canonical(other);
      if (option.name == "tp_overlap" && !rules.empty() && other.tp_overlap > 1)
        other.tp_overlap = kChunksOfSwitch;
      if (!seen.insert(other).second || !WhyNotExpressible(rules, asked).empty()) continue;
      auto predicted = question.predictor.Predict(other);
      if (!predicted.ok() || !predicted->prediction.feasible) continue;
      const double now_s = best ? best->predicted.prediction.step_time_s : given.prediction.step_time_s;
      const bool first_that_fits = !best && !given.prediction.feasible;
      if (!first_that_fits && predicted->prediction.step_time_s >= now_s) continue;
      best = AdvisedPlan{ChangeText(option, question.plan, other), *std::move(predicted)};
    }
  }
  const bool worth =
      best && (!given.prediction.feasible ||
               best->predicted.prediction.step_time_s < (1 - kWorthAChange) * given.prediction.step_time_s);
  return worth ? best : std::nullopt;
}

absl::StatusOr<std::optional<AdvisedPlan>> FastestPlan(PlanQuestion& question, const PlanPrediction& given) {
  v1::SearchSpec spec;
  *spec.mutable_model() = ToProto(question.about.model);
  *spec.mutable_cluster() = ToProto(question.about.cluster);
  *spec.mutable_workload() = ToProto(question.about.workload);
  spec.set_predict_only(true);
  spec.set_memory_margin(question.predictor.costs().memory_margin());
  AUTOCFG_ASSIGN_OR_RETURN(const auto problem, server::ParseSearchSpec(spec));
  AUTOCFG_ASSIGN_OR_RETURN(auto search, server::StudySearch::Create(problem));
  server::StoredOutcomes none;
  AUTOCFG_RETURN_IF_ERROR(search.Drive(none));
  const std::optional<v1::Candidate> best = search.Best();
  if (!best) return std::optional<AdvisedPlan>();
  AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(best->plan()));
  AUTOCFG_ASSIGN_OR_RETURN(auto predicted, question.predictor.Predict(plan));
  const double gained_s = (1 - kWorthAChange) * given.prediction.step_time_s;
  if (given.prediction.feasible && predicted.prediction.step_time_s >= gained_s)
    return std::optional<AdvisedPlan>();
  return std::optional<AdvisedPlan>({"", std::move(predicted)});
}

}  // namespace autocfg::cli
