#include "cli/report/explanation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/report/prediction_report.h"
#include "cli/report/report.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "search/breakdown/step_breakdown.h"
#include "search/cost/memory/memory_model.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_text.h"
#include "search/question/prediction_json.h"
#include "search/schedule/generators.h"
#include "search/schedule/program.h"

namespace autocfg::cli {
namespace {

constexpr std::size_t kMostChunksShown = 3;
constexpr std::size_t kMostRanksShown = 16;
constexpr int kLabel = 16;
constexpr int kNumber = 10;
// Of the parts that make a difference, the largest are named until they make up this share of it.
constexpr double kMostOf = 0.75;
constexpr std::size_t kMostPartsNamed = 3;
constexpr double kNoticeableShare = 0.05;

double Number(std::int64_t value) { return static_cast<double>(value); }

PipelineRank DescribeRank(Predictor& predictor, const PlanPrediction& predicted, std::int64_t pipeline_rank) {
  CostModel& costs = predictor.costs();
  const ParallelPlan& plan = predicted.plan;
  const std::int64_t microbatches = MicrobatchCount(costs.workload(), plan);
  PipelineRank rank;
  std::vector<std::string> layers, in_flight;
  std::int64_t all_in_flight = 0;
  for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
    const std::int64_t stage = StageOf(plan, pipeline_rank, chunk);
    const LayerRange range = StageLayers(costs.model(), plan, stage);
    layers.push_back(range.count == 1 ? fmt::format("{}", range.first)
                                      : fmt::format("{}-{}", range.first, range.first + range.count - 1));
    const std::int64_t most = InFlight(plan, microbatches, stage);
    all_in_flight += most;
    in_flight.push_back(fmt::format("{}", most));
  }
  if (layers.size() > kMostChunksShown) {
    layers.resize(kMostChunksShown - 1);
    layers.emplace_back("...");
    in_flight.assign(1, fmt::format("{}", all_in_flight));
  }
  rank.layers = fmt::format("{}", fmt::join(layers, ", "));
  rank.in_flight = fmt::format("{}", fmt::join(in_flight, "+"));
  const std::int64_t arena =
      RankMemory(costs.problem().With(plan), pipeline_rank, costs.cluster().engine).Arena();
  rank.memory_bytes = arena + costs.AllocatorReserve(arena) + predicted.prediction.memory.device_overhead;
  return rank;
}

// Fills in the seconds of a step that each rank of the pipeline computes or waits for its tensor group. The
// rest of the step it waits for other ranks.
void FillBusy(Predictor& predictor, Explanation& explanation) {
  CostModel& costs = predictor.costs();
  const ParallelPlan& plan = explanation.predicted.plan;
  const double microbatches = Number(MicrobatchCount(costs.workload(), plan));
  const PipelineCosts& all = costs.CostsOf(plan);
  for (std::size_t i = 0; i < explanation.ranks.size(); ++i) {
    const RankCosts& once = all.ranks[i];
    double busy = once.zero_s + once.norm_s + once.update_s;
    for (std::size_t stage = i; stage < all.stages.size(); stage += all.ranks.size())
      busy += all.stages[stage].Total(microbatches);
    explanation.ranks[i].busy_s = std::min(busy, explanation.predicted.prediction.step_time_s);
  }
}

// Returns the ranks to show, in pipeline order. If there are many: the first and last ones, the busiest one
// and the one with the most memory.
std::vector<std::size_t> RanksToShow(const std::vector<PipelineRank>& ranks) {
  std::vector<std::size_t> shown;
  const auto busiest = static_cast<std::size_t>(
      std::max_element(ranks.begin(), ranks.end(),
                       [](const auto& a, const auto& b) { return a.busy_s < b.busy_s; }) -
      ranks.begin());
  const auto fullest = static_cast<std::size_t>(
      std::max_element(ranks.begin(), ranks.end(),
                       [](const auto& a, const auto& b) { return a.memory_bytes < b.memory_bytes; }) -
      ranks.begin());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool near_an_end = i < kMostRanksShown / 2 || i + kMostRanksShown / 2 > ranks.size();
    if (ranks.size() <= kMostRanksShown || near_an_end || i == busiest || i == fullest) shown.push_back(i);
  }
  return shown;
}

std::string Heading(std::string_view text, const BarStyle& style) {
  return Toned(text, Tone::kStrong, style) + "\n";
}

// "  LABEL  BAR  NUMBER  PERCENT"
std::string Row(std::string_view label, double value, double whole, const std::string& number,
                const BarStyle& style) {
  const int width = std::max(10, style.columns - kLabel - kNumber - 12);
  std::string line = fmt::format("  {:<{}}{} {:>{}} {:>7}", label, kLabel, Bar(value, whole, width, style),
                                 number, kNumber, PercentText(value, whole));
  return line + "\n";
}

std::string StepText(const Prediction& p) { return "time of a step: " + StepTimeText(p); }

std::array<BreakdownPart, kBreakdownParts.size()> LongestFirst(const Breakdown& breakdown) {
  auto parts = kBreakdownParts;
  std::stable_sort(parts.begin(), parts.end(), [&](const BreakdownPart& a, const BreakdownPart& b) {
    return breakdown.*a.seconds > breakdown.*b.seconds;
  });
  return parts;
}

// "communication: 12 ms exposed, 3 ms hidden".
std::string CommText(const Explanation& plan) {
  const double exposed_s = ExposedComm(plan.predicted.prediction.breakdown);
  if (exposed_s == 0 && plan.hidden_comm_s == 0.0) return "communication: none";
  if (plan.hidden_comm_s.value_or(0) == 0)
    return fmt::format("communication: {} exposed", base::SecondsText(exposed_s));
  if (exposed_s == 0)
    return fmt::format("communication: {}, all of it hidden", base::SecondsText(*plan.hidden_comm_s));
  return fmt::format("communication: {} exposed, {} hidden", base::SecondsText(exposed_s),
                     base::SecondsText(*plan.hidden_comm_s));
}

std::string MemoryText(const Prediction& p) {
  return fmt::format("memory of the worst rank: {} of {}{}", base::BytesText(p.memory.Total()),
                     base::BytesText(p.capacity_bytes),
                     p.feasible ? ""
                     : p.memory.Total() <= p.capacity_bytes
                         ? ", which leaves less free than the memory margin"
                         : ", which does not fit");
}

std::string RankTable(const Explanation& plan, const BarStyle& style) {
  const Prediction& p = plan.predicted.prediction;
  const std::int64_t capacity = std::max(p.capacity_bytes, p.memory.Total());
  std::size_t layers = 6, in_flight = 9;
  const auto shown = RanksToShow(plan.ranks);
  for (const std::size_t i : shown) {
    layers = std::max(layers, plan.ranks[i].layers.size());
    in_flight = std::max(in_flight, plan.ranks[i].in_flight.size());
  }
  const int fixed = 2 + 4 + 2 + static_cast<int>(layers + in_flight) + 4 + 2 * (kNumber + 3);
  const int width = std::clamp((style.columns - fixed) / 2, 2, 24);
  std::string text = fmt::format("  {:>4}  {:<{}}  {:>{}}  {:<{}}  {}\n", "rank", "layers", layers,
                                 "in flight", in_flight, "busy", width + kNumber + 1, "memory");
  std::size_t expected = 0;
  for (const std::size_t i : shown) {
    const PipelineRank& rank = plan.ranks[i];
    if (i != expected) text += fmt::format("  {:>4}\n", "...");
    expected = i + 1;
    text +=
        fmt::format("  {:>4}  {:<{}}  {:>{}}  {} {:>{}}  {} {:>{}}\n", i, rank.layers, layers, rank.in_flight,
                    in_flight, Bar(rank.busy_s, p.step_time_s, width, style), base::SecondsText(rank.busy_s),
                    kNumber, Bar(Number(rank.memory_bytes), Number(capacity), width, style),
                    base::BytesText(rank.memory_bytes), kNumber);
  }
  return text;
}

std::string Percent(double percent) {
  return std::abs(percent) < 9.95 ? fmt::format(" ({:+.1f}%)", percent) : fmt::format(" ({:+.0f}%)", percent);
}

// Returns one line of a comparison: label, bar and number of each plan, and the change from the second to the
// first.
std::string CompareRow(std::string_view label, double a, double b, double whole, const std::string& a_text,
                       const std::string& b_text, const std::string& difference, const BarStyle& style) {
  const int width = std::clamp((style.columns - kLabel - 2 * (kNumber + 3) - 22) / 2, 6, 30);
  // Less than a ten-thousandth of the whole is invisible in every figure.
  const bool same = std::abs(a - b) < 1e-4 * whole;
  const std::string percent = same || !(b > 0) ? "" : Percent(100 * (a - b) / b);
  std::string line = fmt::format("  {:<{}}{} {:>{}}  {} {:>{}}  ", label, kLabel, Bar(a, whole, width, style),
                                 a_text, kNumber, Bar(b, whole, width, style), b_text, kNumber);
  if (!same) line += Toned(difference + percent, a < b ? Tone::kGood : Tone::kBad, style);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string CompareSeconds(std::string_view label, double a, double b, double whole, const BarStyle& style) {
  const std::string difference = fmt::format("{}{}", a < b ? "-" : "+", base::SecondsText(std::abs(a - b)));
  return CompareRow(label, a, b, whole, base::SecondsText(a), base::SecondsText(b), difference, style);
}

std::string CompareBytes(std::string_view label, std::int64_t a, std::int64_t b, std::int64_t whole,
                         const BarStyle& style) {
  const std::string difference =
      fmt::format("{}{}", a < b ? "-" : "+", base::BytesText(a < b ? b - a : a - b));
  return CompareRow(label, Number(a), Number(b), Number(whole), base::BytesText(a), base::BytesText(b),
                    difference, style);
}

double Busiest(const Explanation& plan) {
  double most = 0;
  for (const PipelineRank& rank : plan.ranks) most = std::max(most, rank.busy_s);
  return most;
}

double Idlest(const Explanation& plan) {
  double least = plan.ranks.front().busy_s;
  for (const PipelineRank& rank : plan.ranks) least = std::min(least, rank.busy_s);
  return least;
}

// Capitalizes the first letter.
std::string Sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

bool TakeTheSame(const Prediction& a, const Prediction& b) {
  return std::abs(a.step_time_s / b.step_time_s - 1) < 5e-4;
}

}  // namespace

absl::StatusOr<Explanation> Explain(Predictor& predictor, const ParallelPlan& plan) {
  AUTOCFG_ASSIGN_OR_RETURN(auto predicted, predictor.Predict(plan));
  Explanation explanation{std::move(predicted), {}, std::nullopt};
  for (std::int64_t rank = 0; rank < explanation.predicted.plan.pp; ++rank) {
    explanation.ranks.push_back(DescribeRank(predictor, explanation.predicted, rank));
  }
  FillBusy(predictor, explanation);
  const ParallelPlan& resolved = explanation.predicted.plan;
  if (CheckProgramSize(predictor.costs().workload(), resolved).ok())
    explanation.hidden_comm_s = predictor.costs().HiddenComm(resolved);
  explanation.predicted.prediction.hidden_comm_s = explanation.hidden_comm_s;
  return explanation;
}

std::string WhatBounds(const PlanPrediction& predicted) {
  const Prediction& p = predicted.prediction;
  const auto parts = LongestFirst(p.breakdown);
  const double second_s = p.breakdown.*parts[1].seconds;
  std::string text = fmt::format("{} takes {} of the step", Sentence(std::string(parts[0].label)),
                                 PercentText(p.breakdown.*parts[0].seconds, p.step_time_s));
  if (second_s > 0.01 * p.step_time_s)
    text += fmt::format(", {} {}", parts[1].label, PercentText(second_s, p.step_time_s));
  const std::int64_t left = p.capacity_bytes - p.memory.Total();
  if (left >= 0) {
    text += fmt::format("; {} ({}) of a rank's memory stay free.", base::BytesText(left),
                        PercentText(Number(left), Number(p.capacity_bytes)));
  } else {
    text += fmt::format("; it needs {} ({}) more memory than a rank has.", base::BytesText(-left),
                        PercentText(Number(-left), Number(p.capacity_bytes)));
  }
  return text;
}

std::string WhatDiffers(const Prediction& first, const Prediction& second) {
  if (TakeTheSame(first, second)) return "";
  const double total = first.step_time_s - second.step_time_s;
  // What each part adds to the difference; negative: it takes some of it back.
  Breakdown more;
  for (const BreakdownPart& part : kBreakdownParts)
    more.*part.seconds = first.breakdown.*part.seconds - second.breakdown.*part.seconds;
  if (total <= 0) more.Scale(-1);
  double named = 0, taken_back = 0;
  std::vector<std::string> shares;
  for (const BreakdownPart& part : LongestFirst(more)) {
    const double seconds = more.*part.seconds;
    if (seconds < 0) taken_back -= seconds;
    if (seconds <= 0 || shares.size() == kMostPartsNamed || named >= kMostOf * std::abs(total)) continue;
    named += seconds;
    shares.push_back(fmt::format("{} makes {} ({:.0f}%)", part.label, base::SecondsText(seconds),
                                 100 * seconds / std::abs(total)));
  }
  std::string text = fmt::format("Of the {} {}, {}", base::SecondsText(std::abs(total)),
                                 total > 0 ? "more" : "less", fmt::join(shares, ", "));
  if (taken_back > kNoticeableShare * std::abs(total))
    text +=
        fmt::format("; other parts take {} {}", base::SecondsText(taken_back), total > 0 ? "less" : "more");
  return text + ".";
}

nlohmann::ordered_json ComparisonJson(const PlanPrediction& first, const PlanPrediction& second) {
  Breakdown difference = first.prediction.breakdown;
  for (const BreakdownPart& part : kBreakdownParts)
    difference.*part.seconds -= second.prediction.breakdown.*part.seconds;
  nlohmann::ordered_json json{{"first", PlanPredictionJson(first)},
                              {"second", PlanPredictionJson(second)},
                              {"difference_s", BreakdownJson(difference)}};
  json["difference_s"]["total"] = first.prediction.step_time_s - second.prediction.step_time_s;
  return json;
}

std::string ExplanationText(const Explanation& plan, const SearchQuestion& question, const BarStyle& style) {
  const Prediction& p = plan.predicted.prediction;
  std::string text = PlanLine("plan:", PlanText(plan.predicted.plan), "predicted") + "\n";
  text += Heading(StepText(p), style);
  for (const BreakdownPart& part : kBreakdownParts) {
    const double seconds = p.breakdown.*part.seconds;
    text += Row(part.label, seconds, p.step_time_s, base::SecondsText(seconds), style);
  }
  text += fmt::format("  {}\n\n", CommText(plan));
  text += Heading(MemoryText(p), style);
  const double whole = Number(std::max(p.capacity_bytes, p.memory.Total()));
  for (const MemoryRegion& region : kMemoryRegions) {
    if (!IsShown(region, p.memory)) continue;
    const std::int64_t bytes = p.memory.*region.bytes;
    text += Row(region.label, Number(bytes), whole, base::BytesText(bytes), style);
  }
  const std::int64_t left = p.capacity_bytes - p.memory.Total();
  text += Row(left >= 0 ? "free" : "too much", Number(std::abs(left)), whole, base::BytesText(std::abs(left)),
              style);
  text += "\n";
  text +=
      Heading(plan.ranks.size() == 1 ? "the one rank of the pipeline" : "the ranks of the pipeline", style);
  text += RankTable(plan, style);
  text += fmt::format("\n{}\n", Hung(WhatBounds(plan.predicted), 0));
  return text + Wrapped(WorkloadText(question) + "\n" +
                        ClusterText(question.cluster, RankCount(plan.predicted.plan)));
}

std::string ComparisonText(const Explanation& plan, const Explanation& against,
                           const SearchQuestion& question, const BarStyle& style) {
  const Prediction& a = plan.predicted.prediction;
  const Prediction& b = against.predicted.prediction;
  std::string text = PlanLine("first: ", PlanText(plan.predicted.plan), "predicted") +
                     PlanLine("second:", PlanText(against.predicted.plan), "predicted") + "\n";
  text += Heading("time of a step, and what the first takes more or less", style);
  const double slower = std::max(a.step_time_s, b.step_time_s);
  for (const BreakdownPart& part : kBreakdownParts)
    text += CompareSeconds(part.label, a.breakdown.*part.seconds, b.breakdown.*part.seconds, slower, style);
  text += CompareSeconds("in all", a.step_time_s, b.step_time_s, slower, style);
  text += fmt::format("  first:  {}\n  second: {}\n\n", CommText(plan), CommText(against));
  text += Heading(fmt::format("memory of the worst rank, of {}", base::BytesText(a.capacity_bytes)), style);
  const std::int64_t whole = std::max({a.capacity_bytes, a.memory.Total(), b.memory.Total()});
  for (const MemoryRegion& region : kMemoryRegions) {
    if (IsShown(region, a.memory) || IsShown(region, b.memory))
      text += CompareBytes(region.label, a.memory.*region.bytes, b.memory.*region.bytes, whole, style);
  }
  text += CompareBytes("in all", a.memory.Total(), b.memory.Total(), whole, style);
  text += "\n";
  text += Heading("busy time of the ranks of the pipeline", style);
  text += CompareSeconds("busiest rank", Busiest(plan), Busiest(against), slower, style);
  text += CompareSeconds("idlest rank", Idlest(plan), Idlest(against), slower, style);
  text += Wrapped(
      fmt::format("\nfirst:  {}\nsecond: {}", WhatBounds(plan.predicted), WhatBounds(against.predicted)));
  const double ratio = a.step_time_s / b.step_time_s;
  if (TakeTheSame(a, b)) {
    text += "Both take the same time.\n";
  } else {
    text += fmt::format("The first takes {:.1f}% {} time than the second.\n{}", 100 * std::abs(ratio - 1),
                        ratio < 1 ? "less" : "more", Hung(WhatDiffers(a, b), 0));
  }
  return text + "\n" + Wrapped(WorkloadText(question));
}

}  // namespace autocfg::cli
