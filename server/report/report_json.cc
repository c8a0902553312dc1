#include "server/report/report_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/os/process.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/export_convert.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "proto/merge_results.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"
#include "search/plan/precision.h"
#include "search/predict/predict_plan.h"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostMessageBytes = 400;
constexpr std::size_t kMostSplitBytes = 200;
constexpr std::size_t kMostFailures = 100;
constexpr std::size_t kMostBars = 20'000;  // of a step
constexpr double kTicksOfStep = 100'000;   // resolution of a timeline
constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr int kRunnersUpShown = 10;

// Returns the number with so few digits that its text is short.
double Rounded(double value, int digits = 5) {
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

double MebibytesOf(std::int64_t bytes) { return Rounded(static_cast<double>(bytes) / kMebibyte); }

// Returns parts of a whole in thousandths.
std::int64_t Permille(double part, double whole) { return whole > 0 ? std::llround(1000 * part / whole) : 0; }

std::string LastPartOf(const std::string& name) { return name.substr(name.find_last_of('/') + 1); }

// "STUDY_STATE_RUNNING" -> "running".
std::string WithoutPrefix(const std::string& name, std::string_view prefix) {
  std::string text = name.substr(std::min(prefix.size(), name.size()));
  for (char& c : text) c = c == '_' ? ' ' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}
std::string TrialStateName(v1::TrialState state) {
  return WithoutPrefix(v1::TrialState_Name(state), "TRIAL_STATE_");
}

Json MemoryParts(const MemoryBytes& memory) {
  Json parts = Json::array();
  for (const MemoryRegion& region : kMemoryRegions) parts.push_back(MebibytesOf(memory.*region.bytes));
  return parts;
}

Json TimeParts(const Breakdown& breakdown) {
  Json parts = Json::array();
  for (const BreakdownPart& part : kBreakdownParts) parts.push_back(Rounded(breakdown.*part.seconds));
  return parts;
}

Json StudyJson(const StudyReport& report) {
  const v1::Study& study = report.study;
  return Json{{"name", study.name()},
              {"state", StateName(study.state())},
              {"phase", study.phase()},
              {"message", base::OneLine(study.message(), kMostMessageBytes)},
              {"waiting", base::OneLine(study.waiting(), kMostMessageBytes)},
              {"owner", study.owner()},
              {"weight", study.weight() > 0 ? study.weight() : 1},
              {"created_s", std::floor(study.create_time_s())},
              {"ended_s", std::floor(study.end_time_s())},
              {"fingerprint", study.fingerprint()}};
}

Json QuestionJson(const StudyReport& report) {
  const SearchProblem& problem = report.problem;
  const ModelSpec& model = problem.model;
  Json groups = Json::array();
  for (const NodeGroup& group : problem.cluster.groups) {
    groups.push_back(Json{{"device", group.device.name},
                          {"nodes", group.nodes},
                          {"ranks_per_node", group.gpus_per_node},
                          {"memory_mib", MebibytesOf(group.device.memory_bytes)}});
  }
  Json space = Json::array();
  for (const v1::SpaceAxis& axis : report.study.spec().space()) {
    Json values = Json::array();
    for (const std::string& value : axis.values()) values.push_back(value);
    space.push_back(Json{{"option", axis.name()}, {"values", std::move(values)}});
  }
  return Json{{"model",
               {{"name", model.name},
                {"parameters", ParameterCount(model)},
                {"layers", model.layers},
                {"hidden", model.hidden},
                {"heads", model.heads},
                {"vocab", model.vocab}}},
              {"cluster",
               {{"name", problem.cluster.name},
                {"local", problem.cluster.local},
                {"ranks", RankCount(problem.cluster)},
                {"groups", std::move(groups)}}},
              {"workload",
               {{"global_batch", problem.workload.global_batch},
                {"seq_len", problem.workload.seq_len},
                {"precision", std::string(Name(problem.workload.precision))}}},
              {"engine", problem.cluster.engine.name},
              {"emulated", IsEmulated(problem.device)},
              {"predict_only", problem.options.predict_only},
              {"exhaustive", problem.options.exhaustive},
              {"max_trials", problem.options.max_trials},
              {"time_budget_s", problem.time_budget_s},
              {"memory_margin", problem.options.memory_margin},
              {"space", std::move(space)}};
}

Json PredictedJson(const v1::Prediction& prediction) {
  return Json{{"step_s", Rounded(prediction.step_time_s(), 6)},
              {"low_s", Rounded(prediction.step_time_low_s(), 6)},
              {"high_s", Rounded(prediction.step_time_high_s(), 6)},
              {"time_parts", TimeParts(FromProto(prediction.breakdown_s()))},
              {"memory_parts", MemoryParts(FromProto(prediction.memory_bytes()))},
              {"memory_mib", MebibytesOf(prediction.memory_bytes().total())},
              {"capacity_mib", MebibytesOf(prediction.memory_bytes().capacity())}};
}

Json MeasuredJson(const v1::Measurement& measured) {
  const std::int64_t peak =
      (measured.peak_memory_bytes() > 0 ? measured.peak_memory_bytes() : measured.planned_memory_bytes()) +
      measured.device_overhead_bytes();
  return Json{
      {"step_s", Rounded(measured.median_step_time_s(), 6)},
      {"ci95_s", Rounded(measured.ci95_s(), 3)},
      {"steps", measured.step_time_s_size()},
      {"memory_mib", MebibytesOf(peak)},
      {"slice", measured.slice()},
      {"time_parts", measured.has_breakdown_s() ? TimeParts(FromProto(measured.breakdown_s())) : Json()},
      {"device", measured.device_fingerprint()},
      {"build", measured.build_id()}};
}

Json CandidateJson(const v1::Candidate& candidate, const SearchProblem& problem) {
  Json json{{"plan", WithShortSplit(candidate.plan_text())},
            {"provenance", std::string(Provenance(candidate))},
            {"seconds", Rounded(RankedSeconds(candidate), 6)},
            {"predicted", PredictedJson(candidate.predicted())},
            {"measured", candidate.has_measured() ? MeasuredJson(candidate.measured()) : Json()}};
  const auto plan = FromProto(candidate.plan());
  if (!plan.ok()) return json;
  const Throughput rates =
      ThroughputOf(problem.model, problem.workload, problem.cluster, *plan, RankedSeconds(candidate));
  json["tokens_per_s"] = Rounded(rates.tokens_per_s);
  json["tokens_per_s_per_rank"] = Rounded(rates.tokens_per_s_per_gpu);
  json["mfu"] = rates.mfu ? Json(Rounded(*rates.mfu, 4)) : Json();
  return json;
}

Json AnswerJson(const StudyReport& report) {
  const v1::Recommendation& answer = report.answer;
  Json json{{"best", answer.has_best() ? CandidateJson(answer.best(), report.problem) : Json()}};
  Json others = Json::array();
  for (const v1::Candidate& candidate : answer.runners_up()) {
    if (others.size() < kRunnersUpShown) others.push_back(CandidateJson(candidate, report.problem));
  }
  json["runners_up"] = std::move(others);
  json["matters_most"] = Json();
  if (answer.has_matters_most()) {
    const v1::OptionEffect& effect = answer.matters_most();
    json["matters_most"] = Json{{"option", effect.option()},
                                {"chosen", effect.chosen()},
                                {"instead", effect.instead()},
                                {"costs", Rounded(effect.costs(), 3)},
                                {"because", effect.because()}};
  }
  json["tied"] = TiedWithBest(answer);
  json["chance_of_better"] =
      answer.has_chance_of_better() ? Json(Rounded(answer.chance_of_better(), 3)) : Json();
  json["nothing_fits"] = answer.nothing_fits();
  json["stopped"] = answer.stopped();
  json["plans_left"] = answer.plans_left();
  json["left_out"] = answer.left_out();
  return json;
}

std::string OptionValue(const PlanOption& option, const ParallelPlan& plan) {
  std::string value = option.print(plan);
  if (option.form != OptionForm::kSplit) return value;
  constexpr std::string_view kSplit = ",split=";
  return base::Cut(WithShortSplit(std::string(kSplit) + value).substr(kSplit.size()), kMostSplitBytes);
}

// Returns whether a plan's text names the option (PlanText).
bool IsNamed(const PlanOption& option, const ParallelPlan& plan) {
  ParallelPlan defaults;
  defaults.virtual_stages = plan.virtual_stages;
  SetDependentDefaults(defaults);
  defaults.virtual_stages = 1;
  return option.always_printed || !option.equal(plan, defaults);
}

// Returns a column of the values of an option: the values by their first use, whether a plan's text names it
// then, and for each plan the index of its value. Has no indices if all plans have the same value, or if it
// follows from others in all of them.
Json OptionColumn(const PlanOption& option, const std::vector<RankedPlan>& plans) {
  std::map<std::pair<std::string, bool>, std::size_t> known;
  Json values = Json::array(), indices = Json::array();
  std::string named;  // y or n, by value
  for (const RankedPlan& ranked : plans) {
    const auto [at, is_new] = known.try_emplace(
        std::pair(OptionValue(option, ranked.plan), IsNamed(option, ranked.plan)), known.size());
    if (is_new) {
      values.push_back(at->first.first);
      named += at->first.second ? 'y' : 'n';
    }
    indices.push_back(at->second);
  }
  const bool varies = values.size() > 1 && named.find('y') != std::string::npos;
  Json column{{"name", std::string(option.name)},
              {"summary", std::string(option.summary)},
              {"values", std::move(values)},
              {"named", std::move(named)}};
  if (varies) column["index"] = std::move(indices);
  return column;
}

// The trials of a plan that count, together.
struct PooledTrials {
  v1::Measurement measured;
  std::int64_t count = 0;
};
using PooledPlans = std::map<std::string, PooledTrials>;  // by the plan's text

// Returns what was measured of each plan, by its text, over its trials that count. A measured plan of which
// one counts is in the ranking; doubted trials do not count.
PooledPlans MeasuredPlans(const StudyReport& report) {
  std::map<std::string, const std::vector<std::int64_t>*> counted;
  for (const RankedPlan& ranked : report.plans) {
    if (!ranked.trials.empty()) counted[PlanText(ranked.plan)] = &ranked.trials;
  }
  std::map<std::string, std::vector<v1::Measurement>> trials;
  for (const v1::Trial& trial : report.trials) {
    if (!trial.has_measured()) continue;
    const auto known = counted.find(trial.plan_text());
    if (known == counted.end() ||
        std::find(known->second->begin(), known->second->end(), trial.repeat()) == known->second->end())
      continue;
    trials[trial.plan_text()].push_back(trial.measured());
  }
  PooledPlans pooled;
  for (const auto& [text, measured] : trials)
    pooled[text] = {.measured = PoolTrials(measured), .count = static_cast<std::int64_t>(measured.size())};
  return pooled;
}

// Returns what is known of the plans that were measured as a whole, beside their median. A corrected
// prediction may differ from that, and its parts then add up to it alone.
Json MeasuredColumns(const StudyReport& report, const PooledPlans& pooled) {
  Json rows = Json::array();
  for (std::size_t plan = 0; plan < report.plans.size(); ++plan) {
    const RankedPlan& ranked = report.plans[plan];
    if (!ranked.median_step_time_s) continue;
    const auto measured = pooled.find(PlanText(ranked.plan));
    const bool has_parts = measured != pooled.end() && measured->second.measured.has_breakdown_s();
    rows.push_back(Json{
        {"plan", plan},
        {"predicted_s", Rounded(ranked.predicted.step_time_s)},
        {"time_parts", has_parts ? TimeParts(FromProto(measured->second.measured.breakdown_s())) : Json()}});
  }
  return rows;
}

Json PlansJson(const StudyReport& report, const PooledPlans& pooled) {
  Json options = Json::array();
  for (const PlanOption& option : PlanOptions()) options.push_back(OptionColumn(option, report.plans));
  Json seconds = Json::array(), memory = Json::array();
  std::string kinds;  // p: predicted, m: measured, s: a slice was measured
  std::vector<Json> time(kBreakdownParts.size(), Json::array()), space(kMemoryRegions.size(), Json::array());
  for (const RankedPlan& ranked : report.plans) {
    seconds.push_back(Rounded(ranked.median_step_time_s.value_or(ranked.predicted.step_time_s)));
    memory.push_back(MebibytesOf(ranked.predicted.memory.Total()));
    kinds += ranked.slice ? 's' : ranked.median_step_time_s ? 'm' : 'p';
    const double total_s = ranked.predicted.breakdown.Total();
    for (std::size_t i = 0; i < time.size(); ++i)
      time[i].push_back(Permille(ranked.predicted.breakdown.*kBreakdownParts[i].seconds, total_s));
    const auto total_bytes = static_cast<double>(ranked.predicted.memory.Total());
    for (std::size_t i = 0; i < space.size(); ++i) {
      space[i].push_back(
          Permille(static_cast<double>(ranked.predicted.memory.*kMemoryRegions[i].bytes), total_bytes));
    }
  }
  return Json{{"count", report.plans.size()},
              {"in_all", report.plans_in_all},
              {"options", std::move(options)},
              {"seconds", std::move(seconds)},
              {"memory_mib", std::move(memory)},
              {"kinds", std::move(kinds)},
              {"time_permille", std::move(time)},
              {"memory_permille", std::move(space)},
              {"measured", MeasuredColumns(report, pooled)}};
}

// What a search measured of one plan.
struct PlanTrials {
  const v1::Trial* first = nullptr;  // that was measured
  std::int64_t count = 0;
};

// Returns what was predicted of each plan before its first trial, beside what was measured over its trials,
// in the order of the first ones.
Json MeasurementsJson(const StudyReport& report, const PooledPlans& pooled) {
  std::vector<std::string> order;
  std::map<std::string, PlanTrials> plans;
  for (const v1::Trial& trial : report.trials) {
    if (!trial.has_measured()) continue;
    PlanTrials& of_plan = plans[trial.plan_text()];
    if (of_plan.count++ == 0) {
      of_plan.first = &trial;
      order.push_back(trial.plan_text());
    }
  }
  Json rows = Json::array();
  for (const std::string& text : order) {
    const PlanTrials& of_plan = plans[text];
    const auto of_trials = pooled.find(text);
    if (of_trials == pooled.end()) continue;
    const v1::Measurement& measured = of_trials->second.measured;
    rows.push_back(Json{{"plan", WithShortSplit(text)},
                        {"trial", LastPartOf(of_plan.first->name())},
                        {"trials", of_trials->second.count},
                        {"doubted", of_plan.count - of_trials->second.count},
                        {"slice", measured.slice()},
                        {"predicted_s", Rounded(of_plan.first->predicted().step_time_s())},
                        {"low_s", Rounded(of_plan.first->predicted().step_time_low_s())},
                        {"high_s", Rounded(of_plan.first->predicted().step_time_high_s())},
                        {"measured_s", Rounded(measured.median_step_time_s())},
                        {"ci95_s", Rounded(measured.ci95_s(), 3)}});
  }
  return rows;
}

// Returns the trials that ended without a measurement, the first of them in full.
Json FailuresJson(const StudyReport& report) {
  Json rows = Json::array();
  for (const v1::Trial& trial : report.trials) {
    const bool ended = trial.state() != v1::TRIAL_STATE_QUEUED && trial.state() != v1::TRIAL_STATE_RUNNING;
    if (!ended || trial.has_measured() || rows.size() >= kMostFailures) continue;
    rows.push_back(Json{{"trial", LastPartOf(trial.name())},
                        {"plan", WithShortSplit(trial.plan_text())},
                        {"state", TrialStateName(trial.state())},
                        {"message", base::OneLine(trial.message(), kMostMessageBytes)}});
  }
  return rows;
}

Json BillJson(const StudyReport& report, const PooledPlans& pooled) {
  std::map<std::string, std::int64_t> states;
  std::int64_t attempts = 0, doubted = 0;
  for (const v1::Trial& trial : report.trials) {
    ++states[TrialStateName(trial.state())];
    attempts += trial.attempts_size();
    doubted += trial.has_measured() ? 1 : 0;
  }
  for (const auto& [text, trials] : pooled) doubted -= trials.count;
  Json by_state = Json::array();
  for (const auto& [state, count] : states) by_state.push_back(Json{{"state", state}, {"count", count}});
  const v1::Recommendation& answer = report.answer;
  return Json{{"wall_s", Rounded(answer.wall_s())},
              {"plan_cpu_s", Rounded(answer.plan_cpu_s())},
              {"device_s", Rounded(answer.device_s())},
              {"exhaustive_device_s", Rounded(answer.exhaustive_device_s())},
              {"trials", report.trials.size()},
              {"attempts", attempts},
              {"doubted", doubted},
              {"by_state", std::move(by_state)},
              {"trials_reused", answer.reused_trials()},
              {"op_times_measured", answer.measured_op_times()},
              {"op_times_reused", answer.reused_op_times()},
              {"op_times_estimated", answer.estimated_op_times()}};
}

Json CountsJson(const StudyReport& report) {
  const v1::Counts& counts = report.answer.counts();
  std::vector<std::pair<std::string, std::int64_t>> reasons(counts.rejected().begin(),
                                                            counts.rejected().end());
  std::sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  Json rejected = Json::array();
  for (const auto& [reason, count] : reasons) {
    if (count > 0) rejected.push_back(Json{{"reason", reason}, {"count", count}});
  }
  return Json{{"enumerated", counts.enumerated()},       {"illegal", counts.illegal()},
              {"out_of_memory", counts.out_of_memory()}, {"predicted", counts.predicted()},
              {"measured", counts.measured()},           {"rejected", std::move(rejected)}};
}

// The letter of a bar: what the rank does.
char LetterOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return 'F';
    case ActionKind::kBackward: return 'B';
    case ActionKind::kInputGradient: return 'I';
    case ActionKind::kWeightGradient: return 'W';
    case ActionKind::kZeroScalars:
    case ActionKind::kOptimizer: return 'O';
    case ActionKind::kSumNormGradients:
    case ActionKind::kReduceGradients:
    case ActionKind::kSumTiedEmbedding:
    case ActionKind::kReduceScalars:
    case ActionKind::kGatherParameters: return 'C';
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient: break;
  }
  return ' ';
}

// What ranks of a pipeline do in a step, by rank.
using PipelineRows = std::vector<std::vector<TimelineRow>>;

// Returns the bars of one rank: its computes and collectives by start. `kinds` has a letter for each;
// `numbers` its microbatch and stage (-1: none), the ticks since the end of the bar before it, and its own.
Json RankBars(const std::vector<TimelineRow>& rows, double step_s) {
  std::vector<const TimelineRow*> bars;
  for (const TimelineRow& row : rows) {
    if (LetterOf(row.action.kind) != ' ') bars.push_back(&row);
  }
  std::stable_sort(bars.begin(), bars.end(),
                   [](const TimelineRow* a, const TimelineRow* b) { return a->start_s < b->start_s; });
  const auto ticks = [&](double seconds) {
    return static_cast<std::int64_t>(step_s > 0 ? std::llround(seconds / step_s * kTicksOfStep) : 0);
  };
  std::string kinds;
  Json numbers = Json::array();
  std::int64_t at = 0;
  for (const TimelineRow* row : bars) {
    const Action& action = row->action;
    const std::int64_t begin = std::max(at, ticks(row->start_s)), end = std::max(begin, ticks(row->end_s));
    kinds += LetterOf(action.kind);
    for (const std::int64_t number :
         {std::int64_t{action.microbatch}, std::int64_t{action.stage}, begin - at, end - begin})
      numbers.push_back(number);
    at = end;
  }
  return Json{{"kinds", kinds}, {"numbers", std::move(numbers)}};
}

// Sets what is drawn of a step, or says in `note` why it cannot be.
void SetStep(const PipelineRows& pipeline, double step_s, Json& json) {
  json["step_s"] = Rounded(step_s, 6);
  Json ranks = Json::array();
  std::size_t bars = 0;
  for (const std::vector<TimelineRow>& rows : pipeline) {
    ranks.push_back(RankBars(rows, step_s));
    bars += ranks.back()["kinds"].get_ref<const std::string&>().size();
  }
  if (bars > kMostBars) {
    json["note"] = fmt::format("its {} actions are too many to be drawn",
                               base::CountText(static_cast<std::int64_t>(bars)));
    ranks = Json::array();
  }
  json["ranks"] = std::move(ranks);
}

PipelineRows RowsOf(const PipelineTrace& trace) {
  PipelineRows pipeline(trace.ranks.size());
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    for (const TraceRow& row : trace.ranks[rank]) {
      const RankProgram& program = trace.program.ranks[static_cast<std::size_t>(row.rank)];
      pipeline[rank].push_back({.pipeline = static_cast<std::int32_t>(rank),
                                .action = program[static_cast<std::size_t>(row.action)],
                                .start_s = row.start_s,
                                .end_s = row.end_s});
    }
  }
  return pipeline;
}

Json MeasuredTimelineJson(const MeasuredTimeline& timeline, std::int64_t ranks) {
  Json json{{"trial", timeline.trial}, {"note", timeline.left_out}};
  PipelineRows pipeline(timeline.left_out.empty() ? static_cast<std::size_t>(ranks) : 0);
  double step_s = 0;
  for (const TimelineRow& row : timeline.rows) {
    const auto rank = static_cast<std::size_t>(row.pipeline);
    if (rank >= pipeline.size()) continue;  // CheckFits keeps such rows out
    pipeline[rank].push_back(row);
    step_s = std::max(step_s, row.end_s);
  }
  SetStep(pipeline, step_s, json);
  return json;
}

Json TimelinesJson(const StudyReport& report) {
  Json all = Json::array();
  for (const PlanTimeline& timeline : report.timelines) {
    Json json{{"plan", WithShortSplit(PlanText(timeline.plan))}, {"note", timeline.too_large}};
    SetStep(RowsOf(timeline.trace), timeline.trace.step_time_s, json);
    json["measured"] =
        timeline.measured ? MeasuredTimelineJson(*timeline.measured, timeline.plan.pp) : Json();
    all.push_back(std::move(json));
  }
  return all;
}

// Returns the plans that no other beats in both time and memory, as a search names them.
Json FrontJson(const StudyReport& report) {
  Json front = Json::array();
  for (const v1::Candidate& candidate : report.answer.pareto_memory()) {
    front.push_back(Json{{"plan", WithShortSplit(candidate.plan_text())},
                         {"provenance", std::string(Provenance(candidate))},
                         {"seconds", Rounded(RankedSeconds(candidate), 6)},
                         {"memory_mib", MebibytesOf(candidate.predicted().memory_bytes().total())}});
  }
  return front;
}

template <typename Rows>
Json Labels(const Rows& rows) {
  Json labels = Json::array();
  for (const auto& row : rows) labels.push_back(std::string(row.label));
  return labels;
}

}  // namespace

std::string StateName(v1::StudyState state) {
  return WithoutPrefix(v1::StudyState_Name(state), "STUDY_STATE_");
}

std::string ReportTitle(const StudyReport& report) {
  const SearchProblem& problem = report.problem;
  const std::string cluster = problem.cluster.local || problem.cluster.groups.empty()
                                  ? problem.cluster.name
                                  : problem.cluster.groups.front().device.name;
  const std::int64_t ranks = RankCount(problem.cluster);
  const std::string search =
      report.study.name().empty() ? "Search" : fmt::format("Study {}", LastPartOf(report.study.name()));
  return fmt::format("{}: {} on {}, {} rank{}", search,
                     problem.model.name.empty() ? "a model" : problem.model.name,
                     cluster.empty() ? "a cluster" : cluster, base::CountText(ranks), ranks == 1 ? "" : "s");
}

std::string ReportJson(const StudyReport& report) {
  const PooledPlans pooled = MeasuredPlans(report);
  Json json{{"title", ReportTitle(report)},
            {"version", base::Version()},
            {"build", base::BuildId()},
            {"study", StudyJson(report)},
            {"question", QuestionJson(report)},
            {"answer", AnswerJson(report)},
            {"time_labels", Labels(kBreakdownParts)},
            {"memory_labels", Labels(kMemoryRegions)},
            {"plans", PlansJson(report, pooled)},
            {"measurements", MeasurementsJson(report, pooled)},
            {"failures", FailuresJson(report)},
            {"timeline_ticks", kTicksOfStep},
            {"timelines", TimelinesJson(report)},
            {"counts", CountsJson(report)},
            {"bill", BillJson(report, pooled)}};
  json["from_file"] = report.from_file;
  if (report.from_file) json["front"] = FrontJson(report);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace autocfg::server
