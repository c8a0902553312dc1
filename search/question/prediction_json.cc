#include "search/question/prediction_json.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/breakdown/step_breakdown.h"
#include "search/plan/plan_text.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

// One line, whatever bytes a message has taken over from the request.
std::string Line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// An answer with its id in front: `id` is JSON as it stands in the answer.
std::string WithId(std::string_view id, const Json& answer) {
  return fmt::format("{{\"id\":{},{}", id, std::string_view(Line(answer)).substr(1));
}

AnsweredLine ErrorLine(std::string_view id, std::string_view message) {
  return {WithId(id, Json{{"error", message}}), false};
}

// The number that a field of the object in `line` has, as it is written there: 1e2 is not 100.0 to who looks
// for it. Empty where none is found. Requires valid JSON.
std::string_view NumberAsWritten(std::string_view line, std::string_view field) {
  constexpr std::string_view kSpace = " \t\r\n";
  int depth = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '{' || line[at] == '[') ++depth;
    if (line[at] == '}' || line[at] == ']') --depth;
    if (line[at] != '"') continue;
    const std::size_t begin = ++at;
    while (line[at] != '"') at += line[at] == '\\' ? 2 : 1;
    const std::string_view text = line.substr(begin, at - begin);
    const std::size_t colon = line.find_first_not_of(kSpace, at + 1);
    if (depth != 1 || text != field || line[colon] != ':') continue;
    const std::size_t value = line.find_first_not_of(kSpace, colon + 1);
    const std::size_t end = line.find_first_not_of("+-.0123456789eE", value);
    return line.substr(value, end - value);
  }
  return "";
}

absl::StatusOr<ModelSpec> ParseModel(const Json& json) {
  if (json.is_string()) return ModelPreset(json.get_ref<const std::string&>());
  if (json.is_object() && json.contains("model_type")) {
    return base::InvalidArgument(
        "model",
        "it is a Hugging Face config.json, which `--model FILE` reads and a request does not; give "
        "its "
        "sizes as layers, hidden, heads, vocab, ...");
  }
  return ParseModelJson(json);
}

absl::StatusOr<ClusterSpec> ParseCluster(const Json& json) {
  if (!json.is_string()) return ParseClusterJson(json);
  const auto& name = json.get_ref<const std::string&>();
  if (name == "local" || name.starts_with("local:")) return LocalHasNoFigures();
  return PresetCluster(name);
}

}  // namespace

Json MemoryJson(const Prediction& prediction) {
  const MemoryBytes& memory = prediction.memory;
  Json json = Json::object();
  for (const MemoryRegion& region : kMemoryRegions) json[std::string(region.name)] = memory.*region.bytes;
  json["allocated"] = memory.Arena();
  json["reserved"] = memory.Reserved();
  json["total"] = memory.Total();
  json["total_low"] = prediction.memory_low_bytes;
  json["total_high"] = prediction.memory_high_bytes;
  json["capacity"] = prediction.capacity_bytes;
  return json;
}

Json BreakdownJson(const Breakdown& breakdown) {
  Json json = Json::object();
  for (const BreakdownPart& part : kBreakdownParts) json[std::string(part.name)] = breakdown.*part.seconds;
  return json;
}

Json PredictionJson(const Prediction& prediction, const Throughput& throughput) {
  return Json{{"feasible", prediction.feasible},
              {"reason", prediction.reason},
              {"step_time_s", prediction.step_time_s},
              {"step_time_low_s", prediction.step_time_low_s},
              {"step_time_high_s", prediction.step_time_high_s},
              {"tokens_per_s_per_gpu", throughput.tokens_per_s_per_gpu},
              {"model_flops_per_s_per_gpu", throughput.model_flops_per_s_per_gpu},
              {"hardware_flops_per_s_per_gpu", throughput.hardware_flops_per_s_per_gpu},
              {"mfu", throughput.mfu ? Json(*throughput.mfu) : Json(nullptr)},
              {"memory_bytes", MemoryJson(prediction)},
              {"breakdown_s", BreakdownJson(prediction.breakdown)},
              {"exposed_comm_s", ExposedComm(prediction.breakdown)}};
}

Json PlanPredictionJson(const PlanPrediction& predicted) {
  Json json{{"plan", PlanJson(predicted.plan)}, {"plan_text", PlanText(predicted.plan)}};
  json.update(PredictionJson(predicted.prediction, predicted.throughput));
  const std::optional<double>& hidden_s = predicted.prediction.hidden_comm_s;
  json["hidden_comm_s"] = hidden_s ? Json(*hidden_s) : Json(nullptr);
  json["allocated_bytes_by_pipeline_rank"] = predicted.rank_bytes;
  json["parameters"] = predicted.parameters;
  json["engine"] = predicted.engine;
  json["notes"] = predicted.notes;
  return json;
}

absl::StatusOr<PredictionQuestion> ParsePredictionRequest(const Json& json) {
  base::FieldReader reader("request", json);
  for (const std::string_view name : {"model", "cluster", "global_batch", "plan"}) reader.Require(name);
  QuestionParts parts;
  reader.Find("id");
  reader.Size("global_batch", parts.global_batch);
  reader.SizeOrText("seq_len", base::Quantity::kSequenceLength, parts.seq_len);
  reader.String("precision", parts.precision);
  reader.String("optimizer", parts.optimizer);
  if (double momentum = 0; reader.Find("momentum") != nullptr) {
    reader.Number("momentum", momentum);
    parts.momentum = momentum;
  }
  reader.String("engine", parts.engine);
  if (double margin = 0; reader.Find("memory_margin") != nullptr) {
    reader.Number("memory_margin", margin);
    parts.memory_margin = margin;
  }
  const Json* model_field = reader.Find("model");
  const Json* cluster_field = reader.Find("cluster");
  const Json* plan_field = reader.Find("plan");
  if (reader.Find("precision") != nullptr && parts.precision.empty())
    reader.Invalid(UnknownBase("") + ", or leave it out");
  if (reader.Find("optimizer") != nullptr && parts.optimizer.empty())
    reader.Invalid(UnknownOptimizer("") + ", or leave it out");
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());

  AUTOCFG_ASSIGN_OR_RETURN(parts.model, ParseModel(*model_field));
  AUTOCFG_ASSIGN_OR_RETURN(parts.cluster, ParseCluster(*cluster_field));
  AUTOCFG_ASSIGN_OR_RETURN(parts.plan, ParsePlanJson(*plan_field));
  auto question = MakePredictionQuestion(std::move(parts));
  if (const Json* text = reader.Find("seq_len"); question.ok() && text != nullptr && text->is_string()) {
    question->notes.push_back(
        fmt::format("seq_len: {} is {}", text->get_ref<const std::string&>(),
                    base::QuantityText(base::Quantity::kSequenceLength,
                                       static_cast<double>(question->workload.seq_len))));
  }
  return question;
}

AnsweredLine AnswerPredictionLine(std::string_view line, PredictorCache& predictors) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.find_first_not_of(" \t") == std::string_view::npos) {
    return PredictionLineError("request: the line is empty; give one JSON object a line");
  }
  const auto json = base::ParseJson("request", line, base::JsonPosition::kColumn);
  if (!json.ok()) return PredictionLineError(std::string(json.status().message()));
  std::string id = "null";
  if (json->is_object() && json->contains("id")) {
    const Json& given = (*json)["id"];
    if (!given.is_string() && !given.is_number() && !given.is_null())
      return PredictionLineError(fmt::format("request: id is {}; it must be a string, a number or null",
                                             base::Printable(given.dump())));
    id = Line(given);
    // Under a name that is written with escapes, the number as it was read.
    if (const std::string_view written = NumberAsWritten(line, "id"); given.is_number() && !written.empty())
      id = written;
  }
  const auto fail = [&id](const absl::Status& status) {
    return ErrorLine(id, std::string(status.message()));
  };
  const auto request = ParsePredictionRequest(*json);
  if (!request.ok()) return fail(request.status());
  const auto predicted = Answer(*request, predictors);
  if (!predicted.ok()) return fail(predicted.status());
  Json answer = PredictionJson(predicted->prediction, predicted->throughput);
  std::vector<std::string> notes = predicted->notes;
  notes.insert(notes.end(), request->notes.begin(), request->notes.end());
  answer["allocated_bytes_by_pipeline_rank"] = predicted->rank_bytes;
  answer["parameters"] = predicted->parameters;
  answer["engine"] = predicted->engine;
  if (!notes.empty()) answer["notes"] = notes;
  return {WithId(id, answer), true};
}

AnsweredLine PredictionLineError(std::string_view message) { return ErrorLine("null", message); }

}  // namespace autocfg
