#include "cli/report/results_json.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/json_reader.h"
#include "base/os/process.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/export_convert.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/plan/plan_text.h"
#include "search/predict/predict_plan.h"
#include "search/question/prediction_json.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kGiveAnswer = "give a file that autocfg search --output wrote";

// Returns the field's value for a message.
std::string ValueText(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field == object.end() ? "missing" : base::Printable(field->dump());
}

absl::StatusOr<std::int64_t> PositiveField(const Json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number_integer() || field->get<std::int64_t>() <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("workload: {} is {}; it must be a positive whole number", name, ValueText(object, name)));
  }
  return field->get<std::int64_t>();
}

absl::StatusOr<Workload> ParseWorkload(const Json& json) {
  Workload workload;
  AUTOCFG_ASSIGN_OR_RETURN(workload.global_batch, PositiveField(json, "global_batch"));
  AUTOCFG_ASSIGN_OR_RETURN(workload.seq_len, PositiveField(json, "seq_len"));
  const auto field = json.find("precision");
  const std::string name = field != json.end() && field->is_string() ? field->get<std::string>() : "";
  const auto precision = ParsePrecision(name);
  if (!precision) return absl::InvalidArgumentError("workload: " + UnknownPrecision(name));
  workload.precision = *precision;
  return workload;
}

}  // namespace

Json WorkloadJson(const Workload& workload) {
  return Json{{"global_batch", workload.global_batch},
              {"seq_len", workload.seq_len},
              {"precision", std::string(Name(workload.precision))}};
}

Json VersionsJson(EngineDevice device) {
  return Json{{"autocfg", base::Version()},
              {"build_id", base::BuildId()},
              {"engine", std::string(Name(UsesGpus(device) ? EngineDevice::kCuda : EngineDevice::kCpu))}};
}

void SetEngine(const v1::Measurement& measurement, Json& json) {
  const bool own = measurement.engine().empty();
  json["engine"] = own ? std::string(kOwnEngine) : measurement.engine();
  json["engine_version"] = own ? measurement.build_id() : measurement.engine_version();
}

void SetBreakdown(const v1::Breakdown* breakdown, Json& json) {
  if (breakdown == nullptr) {
    json["breakdown_s"] = json["exposed_comm_s"] = json["hidden_comm_s"] = nullptr;
    return;
  }
  const Breakdown parts = FromProto(*breakdown);
  json["breakdown_s"] = BreakdownJson(parts);
  json["exposed_comm_s"] = ExposedComm(parts);
  json["hidden_comm_s"] = breakdown->has_hidden_comm() ? Json(breakdown->hidden_comm()) : Json(nullptr);
}

Json PredictionJson(const v1::Prediction& prediction, const ParallelPlan& plan,
                    const SearchQuestion& question) {
  const Throughput rates = ThroughputOf(question, plan, prediction.step_time_s());
  Json json = PredictionJson(FromProto(prediction), rates);
  SetBreakdown(prediction.has_breakdown_s() ? &prediction.breakdown_s() : nullptr, json);
  json["tokens_per_s"] = rates.tokens_per_s;
  return json;
}

Json MeasurementJson(const v1::Measurement& measurement, const SearchQuestion& question) {
  Json json{
      {"step_time_s", measurement.median_step_time_s()},
      {"ci95_s", measurement.ci95_s()},
      {"steps", measurement.step_time_s_size()},
      {"build_id", measurement.build_id()},
      {"device_fingerprint", measurement.device_fingerprint()},
      {"tokens_per_s",
       measurement.slice() ? Json(nullptr)  // one rank's time is not the step's
                           : Json(TokensPerSecond(question.workload, measurement.median_step_time_s()))},
      {"planned_memory_bytes", measurement.planned_memory_bytes()},
      {"peak_memory_bytes", measurement.peak_memory_bytes()},
      {"device_overhead_bytes", measurement.device_overhead_bytes()},
      {"ranks_per_core", measurement.ranks_per_core()},
      {"ranks_per_gpu",
       measurement.ranks_per_device() > 0 ? Json(measurement.ranks_per_device()) : Json(nullptr)},
      {"slice", measurement.slice()},
      {"emulated", IsEmulated(question.device)}};
  SetEngine(measurement, json);
  SetBreakdown(measurement.has_breakdown_s() ? &measurement.breakdown_s() : nullptr, json);
  return json;
}

absl::StatusOr<Json> CandidateJson(const v1::Candidate& candidate, const SearchQuestion& question) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(candidate.plan()));
  Json json{{"plan", PlanJson(plan)}, {"plan_text", PlanText(plan)}};
  json["provenance"] = Provenance(candidate);
  json["measured"] =
      candidate.has_measured() ? MeasurementJson(candidate.measured(), question) : Json(nullptr);
  json["predicted"] = PredictionJson(candidate.predicted(), plan, question);
  json["corrected"] =
      candidate.has_corrected() ? PredictionJson(candidate.corrected(), plan, question) : Json(nullptr);
  return json;
}

std::optional<double> LeadOf(const v1::Recommendation& answer) {
  if (!answer.has_best() || answer.runners_up().empty()) return std::nullopt;
  const double best_s = RankedSeconds(answer.best());
  if (!(best_s > 0)) return std::nullopt;
  return RankedSeconds(answer.runners_up(0)) / best_s - 1;
}

double FreeShare(const v1::Prediction& predicted) {
  const auto& memory = predicted.memory_bytes();
  if (memory.capacity() <= 0) return 0;
  return std::max(0.0, 1 - static_cast<double>(memory.total()) / static_cast<double>(memory.capacity()));
}

std::optional<PredictionTies> PredictionTiesOf(const v1::Recommendation& answer) {
  const auto whole = [](const v1::Candidate& candidate) {
    return candidate.has_measured() && !candidate.measured().slice();
  };
  if (!answer.has_best() || whole(answer.best())) return std::nullopt;
  const double most_s = answer.best().predicted().step_time_s() * (1 + kPredictionsTellApart);
  PredictionTies ties;
  double most_free = FreeShare(answer.best().predicted()) + kMuchMoreFree;
  for (const v1::Candidate& candidate : answer.runners_up()) {
    if (whole(candidate) || candidate.predicted().step_time_s() > most_s) continue;
    ++ties.count;
    if (FreeShare(candidate.predicted()) < most_free) continue;
    if (ties.roomier != nullptr && FreeShare(candidate.predicted()) == most_free) continue;
    most_free = FreeShare(candidate.predicted());
    ties.roomier = &candidate;
  }
  return ties;
}

namespace {

absl::StatusOr<Json> PredictionTiesJson(const PredictionTies& ties) {
  Json json{{"within", kPredictionsTellApart}, {"count", ties.count}, {"roomier", nullptr}};
  if (ties.roomier == nullptr) return json;
  AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(ties.roomier->plan()));
  json["roomier"] = Json{{"plan", PlanJson(plan)},
                         {"plan_text", PlanText(plan)},
                         {"step_time_s", ties.roomier->predicted().step_time_s()},
                         {"total_memory_bytes", ties.roomier->predicted().memory_bytes().total()}};
  return json;
}

// Returns why the best plan is the best: the runner-up, its lead, and which option matters most.
absl::StatusOr<Json> WhyJson(const v1::Recommendation& answer) {
  Json json{
      {"runner_up", nullptr}, {"lead", nullptr}, {"tied", TiedWithBest(answer)}, {"matters_most", nullptr}};
  if (!answer.runners_up().empty()) {
    const v1::Candidate& second = answer.runners_up(0);
    AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(second.plan()));
    json["runner_up"] = Json{{"plan", PlanJson(plan)},
                             {"plan_text", PlanText(plan)},
                             {"provenance", Provenance(second)},
                             {"step_time_s", RankedSeconds(second)}};
  }
  if (const auto lead = LeadOf(answer)) json["lead"] = *lead;
  json["predicted_ties"] = nullptr;
  if (const auto ties = PredictionTiesOf(answer)) {
    AUTOCFG_ASSIGN_OR_RETURN(json["predicted_ties"], PredictionTiesJson(*ties));
  }
  if (answer.has_matters_most()) {
    const v1::OptionEffect& effect = answer.matters_most();
    AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(effect.plan()));
    json["matters_most"] =
        Json{{"option", effect.option()},   {"chosen", effect.chosen()},
             {"instead", effect.instead()}, {"costs", effect.costs()},
             {"because", effect.because()}, {"only_this_changed", effect.only_this_changed()},
             {"plan", PlanJson(plan)},      {"plan_text", PlanText(plan)}};
    Json& most = json["matters_most"];
    most["costs_alone"] = most["plan_alone"] = most["plan_alone_text"] = nullptr;
    if (effect.has_costs_alone()) {
      AUTOCFG_ASSIGN_OR_RETURN(const auto alone, FromProto(effect.plan_alone()));
      most["costs_alone"] = effect.costs_alone();
      most["plan_alone"] = PlanJson(alone);
      most["plan_alone_text"] = PlanText(alone);
    }
  }
  return json;
}

absl::StatusOr<Json> FrontJson(const v1::Recommendation& answer) {
  Json json = Json::array();
  for (const v1::Candidate& candidate : answer.pareto_memory()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(candidate.plan()));
    json.push_back(Json{{"plan", PlanJson(plan)},
                        {"plan_text", PlanText(plan)},
                        {"provenance", Provenance(candidate)},
                        {"step_time_s", RankedSeconds(candidate)},
                        {"total_memory_bytes", candidate.predicted().memory_bytes().total()}});
  }
  return json;
}

}  // namespace

double EvaluatedPerSecond(const v1::Recommendation& answer) {
  const double plan_s = answer.plan_cpu_s();
  return plan_s > 0 ? static_cast<double>(answer.counts().evaluated()) / plan_s : 0;
}

absl::StatusOr<Json> SearchJson(const v1::Recommendation& answer, const SearchQuestion& question) {
  Json json{{"study", question.kept ? Json(answer.study()) : Json(nullptr)},
            {"model", ModelJson(question.model)},
            {"parameters", ParameterCount(question.model)},
            {"cluster", ClusterJson(question.cluster)},
            {"workload", WorkloadJson(question.workload)},
            {"device", question.predict_only ? Json(nullptr) : Json(std::string(Name(question.device)))},
            {"versions", VersionsJson(question.device)}};
  if (!question.coordinator.empty()) json["coordinator"] = question.coordinator;
  if (answer.nothing_fits().empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(json["best"], CandidateJson(answer.best(), question));
  } else {
    json["best"] = nullptr;
    json["reason"] = answer.nothing_fits();
  }
  if (answer.nothing_fits().empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(json["why"], WhyJson(answer));
  } else {
    json["why"] = nullptr;
  }
  json["engine"] = question.cluster.engine.name;
  json["memory_margin"] = answer.memory_margin();
  json["runners_up"] = Json::array();
  for (const auto& candidate : answer.runners_up()) {
    AUTOCFG_ASSIGN_OR_RETURN(auto runner_up, CandidateJson(candidate, question));
    json["runners_up"].push_back(std::move(runner_up));
  }
  json["measured_not_shown"] = answer.measured_not_shown();
  AUTOCFG_ASSIGN_OR_RETURN(json["pareto_memory"], FrontJson(answer));
  const auto& counts = answer.counts();
  json["counts"] = Json{{"enumerated", counts.enumerated()},       {"illegal", counts.illegal()},
                        {"out_of_memory", counts.out_of_memory()}, {"predicted", counts.predicted()},
                        {"evaluated", counts.evaluated()},         {"measured", counts.measured()}};
  json["rejected"] = Json::object();
  for (const auto& [reason, count] :
       std::map<std::string, std::int64_t>(counts.rejected().begin(), counts.rejected().end())) {
    json["rejected"][reason] = count;
  }
  json["search"] = Json{
      {"wall_s", answer.wall_s()},
      {"plan_cpu_s", answer.plan_cpu_s()},
      {"evaluated_per_s", EvaluatedPerSecond(answer)},
      {"device_s", answer.device_s()},
      {"exhaustive_device_s", answer.exhaustive_device_s()},
      {"chance_of_better", answer.has_chance_of_better() ? Json(answer.chance_of_better()) : Json(nullptr)},
      {"stopped", answer.stopped().empty() ? Json(nullptr) : Json(answer.stopped())},
      {"plans_left", answer.plans_left()},
      {"measured_op_times", answer.measured_op_times()},
      {"reused_op_times", answer.reused_op_times()},
      {"reused_trials", answer.reused_trials()},
      {"estimated_op_times", answer.estimated_op_times()}};
  json["not_considered"] = question.not_considered;
  json["notes"] = question.notes;
  return json;
}

absl::StatusOr<BestPlan> ParseSearchJson(const std::string& text) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto json, base::ParseJson("answer", text));
  if (json.is_object() && json.contains("questions")) {
    return absl::InvalidArgumentError(
        "it holds the answers to several questions; give the file of a search with one");
  }
  for (const char* part : {"model", "workload", "best"}) {
    if (!json.is_object() || !json.contains(part)) {
      return absl::InvalidArgumentError(fmt::format("'{}' is missing; {}", part, kGiveAnswer));
    }
  }
  if (json["best"].is_null())
    return absl::FailedPreconditionError(
        "this search found no plan that fits; give the answer of another search");
  if (!json["best"].is_object() || !json["best"].contains("plan"))
    return absl::InvalidArgumentError(fmt::format("best: 'plan' is missing; {}", kGiveAnswer));
  if (json["best"]["plan"].is_object() && json["best"]["plan"].empty())
    return absl::InvalidArgumentError(fmt::format("best: 'plan' is empty; {}", kGiveAnswer));
  if (!json["workload"].is_object())
    return absl::InvalidArgumentError(fmt::format("workload: not an object; {}", kGiveAnswer));
  BestPlan best;
  AUTOCFG_ASSIGN_OR_RETURN(best.model, ParseModelJson(json["model"]));
  AUTOCFG_ASSIGN_OR_RETURN(best.workload, ParseWorkload(json["workload"]));
  const auto plan = ParsePlanJson(json["best"]["plan"]);
  if (!plan.ok()) return Where("best: plan", plan.status(), "plan");
  best.plan = *plan;
  const auto described = json.find("cluster");
  const bool named = described != json.end() && described->is_object();
  best.local = named && described->contains("local") && (*described)["local"] == true;
  if (named && !best.local) {
    AUTOCFG_ASSIGN_OR_RETURN(best.cluster, ParseClusterJson(*described));
  }
  best.remote = json.contains("coordinator");
  if (const auto engine = json.find("engine"); engine != json.end() && engine->is_string())
    best.engine = engine->get<std::string>();
  if (const auto margin = json.find("memory_margin"); margin != json.end() && !margin->is_null()) {
    if (!margin->is_number())
      return absl::InvalidArgumentError(fmt::format("memory_margin: not a number; {}", kGiveAnswer));
    best.memory_margin = margin->get<double>();
    AUTOCFG_RETURN_IF_ERROR(CheckMemoryMargin(*best.memory_margin));
  }
  if (const auto layout = json.find("layout"); layout != json.end() && !layout->is_null()) {
    const auto each = layout->is_object() ? layout->find("ranks_per_node") : layout->end();
    const std::int64_t ranks = RankCount(best.plan);
    if (!layout->is_object() || each == layout->end() || !each->is_number_integer() || *each < 1 ||
        *each > ranks || ranks % each->get<std::int64_t>() != 0) {
      return absl::InvalidArgumentError(fmt::format(
          "layout: 'ranks_per_node' is no size that divides the {} ranks of the plan; give one", ranks));
    }
    best.ranks_per_node = each->get<std::int64_t>();
  }
  return best;
}

}  // namespace autocfg::cli
