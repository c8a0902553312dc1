#include "proto/answer/answer_json.h"

#include <map>
#include <span>
#include <string_view>

#include "base/os/process.h"
#include "base/status_macros.h"
#include "proto/answer/answer_keys.h"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/message_fields.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "search/question/prediction_json.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"
#include "search/text/workload_json.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;
using answer_keys::Form;
using answer_keys::Key;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Appends the keys. Derived ones are null, for the caller to set.
void Write(std::span<const Key> keys, const Message& message, Json& json) {
  const auto* reflection = message.GetReflection();
  for (const Key& key : keys) {
    Json& value = json[std::string(key.name)] = nullptr;
    if (key.form == Form::kDerived) continue;
    const FieldDescriptor* field = &FieldNamed(message, key.field);
    if (key.form == Form::kNull && !reflection->HasField(message, field)) continue;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL: value = reflection->GetBool(message, field); break;
      case FieldDescriptor::CPPTYPE_INT64: value = reflection->GetInt64(message, field); break;
      case FieldDescriptor::CPPTYPE_DOUBLE: value = reflection->GetDouble(message, field); break;
      default: value = reflection->GetString(message, field);
    }
  }
}

// Sets `name` and NAME_text.
absl::Status SetPlan(const std::string& name, const v1::ParallelPlan& message, Json& json) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(message));
  json[name] = PlanJson(plan);
  json[name + "_text"] = PlanText(plan);
  return absl::OkStatus();
}

// `prediction`: of the candidate.
Json PredictedJson(const v1::Prediction& prediction, const v1::Candidate& candidate,
                   const SearchQuestion& question) {
  const Throughput rates = RatesAt(question, candidate, prediction.step_time_s());
  Json json = PredictionJson(FromProto(prediction), rates);
  SetBreakdown(prediction.has_breakdown_s() ? &prediction.breakdown_s() : nullptr, json);
  json["tokens_per_s"] = rates.tokens_per_s;
  return json;
}

Json MeasuredJson(const v1::Measurement& measured, const SearchQuestion& question) {
  Json json;
  Write(answer_keys::kMeasurement, measured, json);
  json["steps"] = measured.step_time_s_size();
  if (!measured.slice())  // one rank's time is not the step's
    json["tokens_per_s"] = TokensPerSecond(question.workload, measured.median_step_time_s());
  json["emulated"] = IsEmulated(question.device);
  SetEngine(measured, json);
  SetBreakdown(measured.has_breakdown_s() ? &measured.breakdown_s() : nullptr, json);
  return json;
}

absl::StatusOr<Json> CandidateJson(const v1::Candidate& candidate, const SearchQuestion& question) {
  Json json;
  AUTOCFG_RETURN_IF_ERROR(SetPlan("plan", candidate.plan(), json));
  json["provenance"] = Provenance(candidate);
  json["measured"] = candidate.has_measured() ? MeasuredJson(candidate.measured(), question) : Json();
  json["predicted"] = PredictedJson(candidate.predicted(), candidate, question);
  json["corrected"] =
      candidate.has_corrected() ? PredictedJson(candidate.corrected(), candidate, question) : Json();
  return json;
}

// Returns a plan with the time that it is ranked by, and its predicted memory unless it is a runner-up.
absl::StatusOr<Json> NamedPlanJson(const v1::Candidate& candidate, bool provenance, bool memory) {
  Json json;
  AUTOCFG_RETURN_IF_ERROR(SetPlan("plan", candidate.plan(), json));
  if (provenance) json["provenance"] = Provenance(candidate);
  json["step_time_s"] = RankedSeconds(candidate);
  if (memory) json["total_memory_bytes"] = candidate.predicted().memory_bytes().total();
  return json;
}

absl::StatusOr<Json> MattersMostJson(const v1::OptionEffect& effect) {
  Json json;
  Write(answer_keys::kEffect, effect, json);
  AUTOCFG_RETURN_IF_ERROR(SetPlan("plan", effect.plan(), json));
  for (const char* key : {"plan_alone_text", "plan_alone"}) json[key] = nullptr;
  Write({&answer_keys::kCostsAlone, 1}, effect, json);
  if (effect.has_costs_alone()) AUTOCFG_RETURN_IF_ERROR(SetPlan("plan_alone", effect.plan_alone(), json));
  return json;
}

// Returns why the best plan is the best: the runner-up, its lead, and which option matters most.
absl::StatusOr<Json> WhyJson(const v1::Recommendation& found) {
  Json json{{"runner_up", nullptr},
            {"lead", nullptr},
            {"tied", TiedWithBest(found)},
            {"matters_most", nullptr},
            {"predicted_ties", nullptr}};
  if (!found.runners_up().empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(json["runner_up"], NamedPlanJson(found.runners_up(0), true, false));
  }
  if (const auto lead = LeadOf(found)) json["lead"] = *lead;
  if (const auto ties = PredictionTiesOf(found)) {
    Json& tied = json["predicted_ties"] =
        Json{{"within", kPredictionsTellApart}, {"count", ties->count}, {"roomier", nullptr}};
    if (ties->roomier != nullptr) {
      AUTOCFG_ASSIGN_OR_RETURN(tied["roomier"], NamedPlanJson(*ties->roomier, false, true));
    }
  }
  if (found.has_matters_most()) {
    AUTOCFG_ASSIGN_OR_RETURN(json["matters_most"], MattersMostJson(found.matters_most()));
  }
  return json;
}

}  // namespace

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
  Write({&answer_keys::kHiddenComm, 1}, *breakdown, json);
}

absl::StatusOr<Json> AnswerJson(const SearchAnswer& answer) {
  const auto& [question, found] = answer;
  Json json{{"study", question.kept ? Json(found.study()) : Json()},
            {"model", ModelJson(question.model)},
            {"parameters", ParameterCount(question.model)},
            {"cluster", ClusterJson(question.cluster)},
            {"workload", WorkloadJson(question.workload)},
            {"device", question.predict_only ? Json() : Json(std::string(Name(question.device)))},
            {"versions", VersionsJson(question.device)}};
  if (!question.coordinator.empty()) json["coordinator"] = question.coordinator;
  json["best"] = nullptr;
  if (found.has_best()) {
    AUTOCFG_ASSIGN_OR_RETURN(json["best"], CandidateJson(found.best(), question));
    AUTOCFG_ASSIGN_OR_RETURN(json["why"], WhyJson(found));
  } else {
    json["reason"] = found.nothing_fits();
    json["why"] = nullptr;
  }
  json["engine"] = EngineText(question.cluster.engine);
  json["memory_margin"] = found.memory_margin();
  json["runners_up"] = Json::array();
  for (const v1::Candidate& candidate : found.runners_up()) {
    AUTOCFG_ASSIGN_OR_RETURN(json["runners_up"].emplace_back(), CandidateJson(candidate, question));
  }
  json["measured_not_shown"] = found.measured_not_shown();
  json["pareto_memory"] = Json::array();
  for (const v1::Candidate& candidate : found.pareto_memory()) {
    AUTOCFG_ASSIGN_OR_RETURN(json["pareto_memory"].emplace_back(), NamedPlanJson(candidate, true, true));
  }
  Write(answer_keys::kCounts, found.counts(), json["counts"]);
  json["rejected"] = Json::object();
  const auto& rejected = found.counts().rejected();
  for (const auto& [reason, count] : std::map<std::string, std::int64_t>(rejected.begin(), rejected.end()))
    json["rejected"][reason] = count;
  Write(answer_keys::kSearch, found, json["search"]);
  json["search"]["evaluated_per_s"] = EvaluatedPerSecond(found);
  json["not_considered"] = question.not_considered;
  json["notes"] = question.notes;
  return json;
}

}  // namespace autocfg
