#include "cli/study/saved_report.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/json_reader.h"
#include "base/status_macros.h"
#include "cli/report/results_json.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "search/text/cluster_json.h"
#include "search/text/plan_json.h"
#include "server/report/report_json.h"
#include "server/report/report_page.h"
#include "server/report/study_report.h"

namespace autocfg::cli {
namespace {

using FileJson = nlohmann::ordered_json;

constexpr std::int64_t kMostSteps = 100'000;  // of a measurement, as a coordinator takes
constexpr std::int64_t kMostTied = 1'000'000;
constexpr std::size_t kMostListed = 100;  // plans of a list that are shown

// Reads the fields of one object of the file. Keeps the first error.
class AnswerReader {
 public:
  // `path` names the object in errors: "best: predicted". `status` gets the first error of all readers.
  AnswerReader(const FileJson& object, std::string path, absl::Status& status)
      : object_(object), path_(std::move(path)), status_(status) {
    if (!object.is_object()) Fail("it is not an object");
  }

  // Each returns zero or empty if there is an error. Number and Whole: not negative.
  double Number(const char* name) {
    const FileJson* field = Find(name);
    if (field != nullptr && field->is_number() && field->get<double>() >= 0) return field->get<double>();
    Fail(fmt::format("'{}' is no number from 0 on", name));
    return 0;
  }
  double Signed(const char* name) {
    const FileJson* field = Find(name);
    if (field != nullptr && field->is_number()) return field->get<double>();
    Fail(fmt::format("'{}' is no number", name));
    return 0;
  }
  std::int64_t Whole(const char* name) {
    const FileJson* field = Find(name);
    const auto number = field != nullptr ? base::WholeNumber(*field) : std::nullopt;
    if (number && *number >= 0) return *number;
    Fail(fmt::format("'{}' is no whole number from 0 on", name));
    return 0;
  }
  std::string Text(const char* name) {
    const FileJson* field = Find(name);
    if (field != nullptr && field->is_string()) return field->get<std::string>();
    Fail(fmt::format("'{}' is no text", name));
    return "";
  }
  bool Flag(const char* name) {
    const FileJson* field = Find(name);
    if (field != nullptr && field->is_boolean()) return field->get<bool>();
    Fail(fmt::format("'{}' is not true or false", name));
    return false;
  }
  // Returns the field; null if it is absent or null.
  const FileJson* Given(const char* name) const {
    const FileJson* field = Find(name);
    return field != nullptr && !field->is_null() ? field : nullptr;
  }
  // Returns a reader of the field, which must be an object.
  AnswerReader Object(const char* name) {
    static const FileJson kMissing;
    const FileJson* field = Find(name);
    return {field != nullptr ? *field : kMissing, path_.empty() ? name : fmt::format("{}: {}", path_, name),
            status_};
  }
  void Fail(std::string_view problem) {
    status_.Update(
        absl::InvalidArgumentError(fmt::format("{}{}{}; give a file that autocfg search --output wrote",
                                               path_, path_.empty() ? "" : ": ", problem)));
  }

 private:
  const FileJson* Find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto field = object_.find(name);
    return field != object_.end() ? &*field : nullptr;
  }

  const FileJson& object_;
  const std::string path_;
  absl::Status& status_;
};

void ReadPlan(AnswerReader& reader, v1::Candidate& candidate, ParallelPlan& plan) {
  const FileJson* json = reader.Given("plan");
  if (json == nullptr) return reader.Fail("'plan' is missing");
  auto parsed = ParsePlanJson(*json);
  if (!parsed.ok()) return reader.Fail(fmt::format("plan: {}", Text(parsed.status())));
  plan = *std::move(parsed);
  *candidate.mutable_plan() = ToProto(plan);
  candidate.set_plan_text(PlanText(plan));
}

Breakdown ReadParts(AnswerReader reader) {
  Breakdown parts;
  for (const BreakdownPart& part : kBreakdownParts)
    parts.*part.seconds = reader.Number(std::string(part.name).c_str());
  return parts;
}

Prediction ReadPrediction(AnswerReader reader) {
  Prediction predicted;
  predicted.feasible = true;
  predicted.step_time_s = reader.Number("step_time_s");
  predicted.step_time_low_s = reader.Number("step_time_low_s");
  predicted.step_time_high_s = reader.Number("step_time_high_s");
  predicted.breakdown = ReadParts(reader.Object("breakdown_s"));
  AnswerReader memory = reader.Object("memory_bytes");
  for (const MemoryRegion& region : kMemoryRegions)
    predicted.memory.*region.bytes = memory.Whole(std::string(region.name).c_str());
  predicted.capacity_bytes = memory.Whole("capacity");
  return predicted;
}

// The file has the median and the number of the steps, but not their times.
v1::Measurement ReadMeasurement(AnswerReader reader) {
  v1::Measurement measured;
  measured.set_median_step_time_s(reader.Number("step_time_s"));
  measured.set_ci95_s(reader.Number("ci95_s"));
  const std::int64_t steps = reader.Whole("steps");
  if (steps < 1 || steps > kMostSteps) reader.Fail(fmt::format("'steps' is not from 1 to {}", kMostSteps));
  for (std::int64_t step = 0; step < std::min(steps, kMostSteps); ++step)
    measured.add_step_time_s(measured.median_step_time_s());
  measured.set_planned_memory_bytes(reader.Whole("planned_memory_bytes"));
  measured.set_peak_memory_bytes(reader.Whole("peak_memory_bytes"));
  measured.set_device_overhead_bytes(reader.Whole("device_overhead_bytes"));
  measured.set_slice(reader.Flag("slice"));
  measured.set_build_id(reader.Text("build_id"));
  measured.set_device_fingerprint(reader.Text("device_fingerprint"));
  if (reader.Given("breakdown_s") != nullptr)
    *measured.mutable_breakdown_s() = ToProto(ReadParts(reader.Object("breakdown_s")));
  return measured;
}

// Reads a candidate, and adds its plan to those of the report.
v1::Candidate ReadCandidate(AnswerReader reader, server::StudyReport& report) {
  v1::Candidate candidate;
  RankedPlan ranked;
  ReadPlan(reader, candidate, ranked.plan);
  const Prediction predicted = ReadPrediction(reader.Object("predicted"));
  *candidate.mutable_predicted() = ToProto(predicted);
  ranked.predicted = predicted;
  if (reader.Given("corrected") != nullptr) {
    ranked.predicted = ReadPrediction(reader.Object("corrected"));
    *candidate.mutable_corrected() = ToProto(ranked.predicted);
  }
  if (reader.Given("measured") != nullptr) {
    *candidate.mutable_measured() = ReadMeasurement(reader.Object("measured"));
    ranked.slice = candidate.measured().slice();
    if (!ranked.slice) ranked.median_step_time_s = candidate.measured().median_step_time_s();
  }
  report.plans.push_back(std::move(ranked));
  return candidate;
}

// Of a plan of the front, the file has its time and memory alone.
v1::Candidate ReadFrontPlan(AnswerReader reader) {
  v1::Candidate candidate;
  ParallelPlan plan;
  ReadPlan(reader, candidate, plan);
  const double step_s = reader.Number("step_time_s");
  candidate.mutable_predicted()->set_step_time_s(step_s);
  candidate.mutable_predicted()->mutable_memory_bytes()->set_total(reader.Whole("total_memory_bytes"));
  if (reader.Text("provenance") == "measured") candidate.mutable_measured()->set_median_step_time_s(step_s);
  return candidate;
}

void ReadCounts(AnswerReader counts, const FileJson& rejected, v1::Counts& message) {
  message.set_enumerated(counts.Whole("enumerated"));
  message.set_illegal(counts.Whole("illegal"));
  message.set_out_of_memory(counts.Whole("out_of_memory"));
  message.set_predicted(counts.Whole("predicted"));
  message.set_measured(counts.Whole("measured"));
  for (const auto& [reason, count] : rejected.items()) {
    const auto number = base::WholeNumber(count);
    if (!number || *number < 0) return counts.Fail(fmt::format("'{}' is no number of plans", reason));
    (*message.mutable_rejected())[reason] = *number;
  }
}

// Reads what is said of the runners-up, which the answer has.
void ReadWhy(AnswerReader why, v1::Recommendation& answer) {
  answer.set_tied_not_shown(
      static_cast<int>(std::clamp<std::int64_t>(why.Whole("tied") - TiedWithBest(answer), 0, kMostTied)));
  if (why.Given("matters_most") == nullptr) return;
  AnswerReader most = why.Object("matters_most");
  v1::OptionEffect& effect = *answer.mutable_matters_most();
  effect.set_option(most.Text("option"));
  effect.set_chosen(most.Text("chosen"));
  effect.set_instead(most.Text("instead"));
  effect.set_costs(most.Signed("costs"));
  effect.set_because(most.Text("because"));
}

// Reads what the search took and what ended it.
void ReadSearch(AnswerReader search, server::StudyReport& report) {
  v1::Recommendation& answer = report.answer;
  answer.set_wall_s(search.Number("wall_s"));
  answer.set_plan_cpu_s(search.Number("plan_cpu_s"));
  answer.set_device_s(search.Number("device_s"));
  answer.set_exhaustive_device_s(search.Number("exhaustive_device_s"));
  if (search.Given("chance_of_better") != nullptr)
    answer.set_chance_of_better(search.Number("chance_of_better"));
  answer.set_plans_left(search.Whole("plans_left"));
  answer.set_measured_op_times(search.Whole("measured_op_times"));
  answer.set_reused_op_times(search.Whole("reused_op_times"));
  if (search.Given("reused_trials") != nullptr) answer.set_reused_trials(search.Whole("reused_trials"));
  answer.set_estimated_op_times(search.Whole("estimated_op_times"));
  report.study.set_state(v1::STUDY_STATE_DONE);
  if (search.Given("stopped") == nullptr) return;
  const std::string stopped = search.Text("stopped");
  if (stopped == "cancelled") {
    report.study.set_state(v1::STUDY_STATE_CANCELLED);
  } else if (stopped == "paused" || stopped == "interrupted") {
    report.study.set_state(v1::STUDY_STATE_PAUSED);
  } else {
    answer.set_stopped(stopped);
  }
}

absl::Status ReadQuestion(const FileJson& json, AnswerReader& whole, BestPlan best,
                          server::SearchProblem& problem) {
  if (!json.contains("counts") || !json.contains("search")) {
    return absl::InvalidArgumentError(
        "the file is no answer of a search; give a file that autocfg search --output wrote");
  }
  problem.model = std::move(best.model);
  problem.workload = best.workload;
  const FileJson* described = whole.Given("cluster");
  if (described == nullptr)
    return absl::InvalidArgumentError("'cluster' is missing; give a file that autocfg search --output wrote");
  AUTOCFG_ASSIGN_OR_RETURN(problem.cluster, ParseClusterJson(*described));
  problem.cluster.engine.name = best.engine;
  problem.options.predict_only = whole.Given("device") == nullptr;
  if (!problem.options.predict_only) {
    const auto device = ParseEngineDevice(whole.Text("device"));
    if (!device)
      return absl::InvalidArgumentError(
          fmt::format("'device' is {}, which is no device; give a file that autocfg search --output wrote",
                      json["device"].dump()));
    problem.device = *device;
  }
  problem.options.memory_margin = whole.Number("memory_margin");
  return absl::OkStatus();
}

absl::StatusOr<server::StudyReport> ReadAnswer(const FileJson& json, BestPlan best) {
  server::StudyReport report;
  report.from_file = true;
  absl::Status status;
  AnswerReader whole(json, "", status);
  AUTOCFG_RETURN_IF_ERROR(ReadQuestion(json, whole, std::move(best), report.problem));
  if (whole.Given("study") != nullptr) report.study.set_name(whole.Text("study"));
  for (const char* list : {"runners_up", "pareto_memory"}) {
    if (whole.Given(list) == nullptr || !json[list].is_array())
      whole.Fail(fmt::format("'{}' is no list", list));
  }
  if (whole.Given("rejected") == nullptr || !json["rejected"].is_object())
    whole.Fail("'rejected' is no object");
  if (!status.ok()) return status;
  v1::Recommendation& answer = report.answer;
  *answer.mutable_best() = ReadCandidate(whole.Object("best"), report);
  for (std::size_t i = 0; i < json["runners_up"].size() && i < kMostListed; ++i) {
    *answer.add_runners_up() = ReadCandidate(
        AnswerReader(json["runners_up"][i], fmt::format("runners_up: {}", i + 1), status), report);
  }
  for (std::size_t i = 0; i < json["pareto_memory"].size() && i < kMostListed; ++i) {
    *answer.add_pareto_memory() = ReadFrontPlan(
        AnswerReader(json["pareto_memory"][i], fmt::format("pareto_memory: {}", i + 1), status));
  }
  ReadCounts(whole.Object("counts"), json["rejected"], *answer.mutable_counts());
  ReadWhy(whole.Object("why"), answer);
  if (whole.Given("measured_not_shown") != nullptr)  // files of earlier versions lack it
    answer.set_measured_not_shown(static_cast<int>(std::min(whole.Whole("measured_not_shown"), kMostTied)));
  ReadSearch(whole.Object("search"), report);
  report.plans_in_all = answer.counts().predicted();
  if (!status.ok()) return status;
  return report;
}

}  // namespace

absl::StatusOr<std::string> ReportOfAnswer(const std::string& text) {
  AUTOCFG_ASSIGN_OR_RETURN(auto best, ParseSearchJson(text));
  AUTOCFG_ASSIGN_OR_RETURN(const auto json, base::ParseJson("answer", text));
  AUTOCFG_ASSIGN_OR_RETURN(const auto report, ReadAnswer(json, std::move(best)));
  return server::ReportPage(server::ReportTitle(report), server::ReportJson(report));
}

}  // namespace autocfg::cli
