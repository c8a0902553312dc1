#include "cli/question/answer_notes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/ascii.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_options.h"
#include "search/space/axis_ranges.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_search.h"

namespace autocfg::cli {
namespace {

// Returns "zero=2,3"; "zero>=2" of a range.
std::string AxisText(const v1::SpaceAxis& axis) {
  const std::string values = fmt::format("{}", fmt::join(axis.values(), ","));
  const bool bound = !values.empty() && (values.front() == '<' || values.front() == '>');
  return axis.name() + (bound ? "" : "=") + values;
}

// Returns whether a rule is named after an option: dp_shard_needs_zero after dp_shard.
bool IsRuleOf(std::string_view option, std::string_view rule) {
  return rule.size() > option.size() && rule.starts_with(option) &&
         !absl::ascii_islower(static_cast<unsigned char>(rule[option.size()]));
}

// Returns "; 12 plans are illegal by dp_shard_needs_zero" for the rules of this option that were broken.
std::string BrokenRules(const PlanOption& option, const v1::Counts& counts) {
  std::string text;
  for (const auto& [reason, count] : counts.rejected()) {
    if (count > 0 && (IsRuleOf(option.name, reason) || IsRuleOf(option.json_name, reason)))
      text += fmt::format("; {} plan{} illegal by {}", base::CountText(count), count == 1 ? " is" : "s are",
                          reason);
  }
  return text;
}

// Returns why the named values of the axis have nothing to act on in the best plan; empty if one of them is
// its value, or would act.
std::string WhyIdle(const PlanOption& option, const v1::SpaceAxis& axis, const ParallelPlan& best) {
  // The sizes that a range may hold are of no matter: only dp_shard is a size that may be idle.
  const auto values =
      ExpandRanges(option, {axis.values().begin(), axis.values().end()}, {best.dp_shard, best.dp});
  if (!values.ok()) return "";
  std::string why;
  for (const std::string& value : *values) {
    ParallelPlan plan = best;
    if (value == kEveryFull || !option.parse(option, value, plan).ok()) return "";
    if (option.equal(plan, best)) return "";
    const std::vector<std::string> notes = Notes(plan);
    const auto said = std::find_if(notes.begin(), notes.end(), [&](const std::string& note) {
      return note.starts_with(fmt::format("{}=", option.name));
    });
    if (said == notes.end()) return "";
    if (why.empty()) why = *said;
  }
  return why;
}

// Returns the step time of the best plan of a question; nothing if none fits or planning was stopped.
std::optional<double> PredictedSeconds(const v1::SearchSpec& spec, const PlanningWatch& watch) {
  const auto problem = server::ParseSearchSpec(spec);
  if (!problem.ok() || server::NeedsCalibration(*problem)) return std::nullopt;
  auto search = server::StudySearch::Create(*problem, {.gate = nullptr, .watch = watch});
  if (!search.ok()) return std::nullopt;
  server::StoredOutcomes none;
  if (!search->Drive(none).ok()) return std::nullopt;
  const std::optional<v1::Candidate> best = search->Best();
  return best ? std::optional(best->predicted().step_time_s()) : std::nullopt;
}

}  // namespace

std::vector<std::string> IdleValueNotes(const v1::SearchSpec& spec, const v1::Recommendation& answer) {
  std::vector<std::string> notes;
  if (!answer.has_best()) return notes;
  const auto best = FromProto(answer.best().plan());
  if (!best.ok()) return notes;
  for (const v1::SpaceAxis& axis : spec.space()) {
    const PlanOption* const option = FindPlanOption(axis.name());
    if (option == nullptr) continue;
    const std::string why = WhyIdle(*option, axis, *best);
    if (why.empty()) continue;
    notes.push_back(fmt::format("--space {}: the best plan has {}={}, since {}{}", AxisText(axis),
                                option->name, option->print(*best), why,
                                BrokenRules(*option, answer.counts())));
  }
  return notes;
}

std::optional<std::int64_t> EvenBatchNear(std::int64_t global_batch, std::int64_t ranks) {
  if (std::gcd(global_batch, ranks) * kFewOfRanks >= std::min(global_batch, ranks)) return std::nullopt;
  std::int64_t even = 0;
  if (global_batch >= ranks) {
    even = std::max<std::int64_t>(1, (global_batch + ranks / 2) / ranks) * ranks;
  } else {
    const double exponent = std::log2(static_cast<double>(global_batch));
    const std::int64_t below = std::int64_t{1} << static_cast<int>(std::floor(exponent));
    even = global_batch - below <= 2 * below - global_batch ? below : 2 * below;
    if (std::gcd(even, ranks) * kFewOfRanks < std::min(even, ranks)) return std::nullopt;
  }
  const auto away = static_cast<double>(std::abs(even - global_batch));
  if (away > kFarthestBatch * static_cast<double>(global_batch)) return std::nullopt;
  return even;
}

std::string EvenBatchNote(const v1::SearchSpec& spec, const v1::Recommendation& answer,
                          const PlanningWatch& watch) {
  if (!answer.has_best()) return "";
  const auto cluster = FromProto(spec.cluster());
  if (!cluster.ok()) return "";
  const std::int64_t batch = spec.workload().global_batch(), ranks = RankCount(*cluster);
  const std::optional<std::int64_t> even = EvenBatchNear(batch, ranks);
  if (!even) return "";
  v1::SearchSpec asked = spec;
  asked.mutable_workload()->set_global_batch(*even);
  const std::optional<double> seconds = PredictedSeconds(asked, watch);
  const double given_s = answer.best().predicted().step_time_s();
  if (!seconds || !(given_s > 0)) return "";
  const double ratio = *seconds / static_cast<double>(*even) / (given_s / static_cast<double>(batch));
  if (ratio > 1 - kWorthAnotherBatch) return "";
  return fmt::format(
      "{} sequences divide over few of {} ranks; {} would take {} (predicted), {:.0f}% less for each "
      "sequence",
      base::CountText(batch), base::CountText(ranks), base::CountText(*even), base::SecondsText(*seconds),
      100 * (1 - ratio));
}

std::string EnoughNodesNote(const v1::SearchSpec& spec, const v1::Recommendation& answer,
                            const PlanningWatch& watch) {
  if (answer.nothing_fits().empty() || spec.cluster().local() || spec.cluster().groups_size() != 1) return "";
  bool stopped = false;
  const PlanningWatch watched = [&](const PlanningProgress& progress) {
    stopped = stopped || !watch(progress);
    return !stopped;
  };
  v1::SearchSpec asked = spec;
  v1::NodeGroup& group = *asked.mutable_cluster()->mutable_groups(0);
  while (group.nodes() <= kMostNodesTried / 2) {
    std::int64_t too_few = group.nodes(), enough = 2 * too_few;
    group.set_nodes(enough);
    std::optional<double> seconds = PredictedSeconds(asked, watched);
    if (stopped) return "";
    if (!seconds) continue;
    // Fewer may be enough too; where the time ends, the number found so far is right.
    while (enough - too_few > 1) {
      const std::int64_t between = (too_few + enough) / 2;
      group.set_nodes(between);
      const std::optional<double> there = PredictedSeconds(asked, watched);
      if (stopped) break;
      (there ? enough : too_few) = between;
      if (there) seconds = there;
    }
    group.set_nodes(enough);
    return fmt::format("{} nodes ({} ranks) would be enough: a step takes {} there (predicted)",
                       base::CountText(group.nodes()), base::CountText(group.nodes() * group.gpus_per_node()),
                       base::SecondsText(*seconds));
  }
  return fmt::format(
      "more nodes do not help: nothing fits on up to {} nodes either (each doubling was tried)",
      base::CountText(group.nodes()));
}

}  // namespace autocfg::cli
