#include "proto/answer/answer_file.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/answer/answer_keys.h"
#include "proto/convert/message_fields.h"
#include "proto/convert/spec_convert.h"
#include "search/breakdown/step_breakdown.h"
#include "search/cost/memory/memory_model.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/plan/plan_text.h"
#include "search/text/cluster_json.h"
#include "search/text/engines.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;
using answer_keys::Form;
using answer_keys::Key;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view kGiveAnswer = "give a file that autocfg search --output wrote";
constexpr std::int64_t kMostSteps = 100'000;  // of a measurement, as a coordinator takes
constexpr std::int64_t kMostTied = 1'000'000;
constexpr std::size_t kMostListed = 100;  // plans of a list that are read

// Reads one object of the file. Continues after an error; the first one is kept.
class Part {
 public:
  // `path` names the object in errors: "best: predicted". `first` gets the first error of all parts.
  Part(const Json& object, std::string path, absl::Status& first)
      : object_(object), path_(std::move(path)), first_(first) {
    if (!object.is_object()) Fail("it is not an object");
  }

  // Returns the field; null if it is absent.
  const Json& At(std::string_view name) const {
    static const Json kNone;
    const auto field = object_.find(std::string(name));
    return field != object_.end() ? *field : kNone;
  }
  bool Has(std::string_view name) const { return !At(name).is_null(); }

  // Returns the field, which must be an object.
  Part Object(std::string_view name) const {
    return {At(name), path_.empty() ? std::string(name) : fmt::format("{}: {}", path_, name), first_};
  }
  // Returns the elements of a list of objects.
  std::vector<Part> List(std::string_view name) const {
    std::vector<Part> parts;
    const Json& list = At(name);
    if (!list.is_array()) Refuse(name, "a list");
    for (std::size_t i = 0; list.is_array() && i < list.size() && i < kMostListed; ++i)
      parts.push_back({list[i], fmt::format("{}: {}", name, i + 1), first_});
    return parts;
  }

  // Each returns zero or empty if there is an error.
  double Number(std::string_view name, bool is_signed = false) const {
    const Json& field = At(name);
    if (field.is_number() && (is_signed || field.get<double>() >= 0)) return field.get<double>();
    Refuse(name, is_signed ? "a number" : "a number >= 0");
    return 0;
  }
  std::int64_t Whole(std::string_view name) const {
    const auto number = base::WholeNumber(At(name));
    if (number && *number >= 0) return *number;
    Refuse(name, "a whole number >= 0");
    return 0;
  }
  std::string Text(std::string_view name) const {
    if (At(name).is_string()) return At(name).get<std::string>();
    Refuse(name, "a text");
    return "";
  }
  bool Flag(std::string_view name) const {
    if (!At(name).is_boolean()) Refuse(name, "true or false");
    return At(name) == true;
  }
  // Reads a plan; the default one if there is an error.
  ParallelPlan Plan(std::string_view name) const {
    const auto plan = ParsePlanJson(At(name));
    if (plan.ok()) return *plan;
    if (!Has(name)) Refuse(name, "a plan");
    Fail(fmt::format("{}: {}", name, base::ProblemOf(plan.status())));
    return {};
  }

  void Read(const Key& key, Message& message) const {
    if (key.form == Form::kDerived || (key.form != Form::kAlways && !Has(key.name))) return;
    const auto* reflection = message.GetReflection();
    const FieldDescriptor* field = &FieldNamed(message, key.field);
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL: return reflection->SetBool(&message, field, Flag(key.name));
      case FieldDescriptor::CPPTYPE_INT64: return reflection->SetInt64(&message, field, Whole(key.name));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return reflection->SetDouble(&message, field, Number(key.name, key.is_signed));
      default: reflection->SetString(&message, field, Text(key.name));
    }
  }
  void Read(std::span<const Key> keys, Message& message) const {
    for (const Key& key : keys) Read(key, message);
  }
  void Refuse(std::string_view name, std::string_view wanted) const {
    Fail(Has(name) ? fmt::format("'{}' is {}, not {}", base::Printable(name),
                                 base::Printable(At(name).dump()), wanted)
                   : fmt::format("'{}' is missing", base::Printable(name)));
  }
  void Fail(std::string_view problem) const {
    first_.Update(absl::InvalidArgumentError(
        fmt::format("{}{}{}; {}", path_, path_.empty() ? "" : ": ", problem, kGiveAnswer)));
  }

 private:
  const Json& object_;
  std::string path_;
  absl::Status& first_;
};

// Reads the parts of a step that `step` has.
void ReadBreakdown(const Part& step, v1::Breakdown& breakdown) {
  const Part parts = step.Object("breakdown_s");
  for (const BreakdownPart& part : kBreakdownParts) parts.Read(answer_keys::Always(part.name), breakdown);
  step.Read(answer_keys::kHiddenComm, breakdown);
}

void ReadPrediction(const Part& part, v1::Prediction& predicted) {
  predicted.set_feasible(true);
  part.Read(answer_keys::kPrediction, predicted);
  ReadBreakdown(part, *predicted.mutable_breakdown_s());
  const Part memory = part.Object("memory_bytes");
  for (const MemoryRegion& region : kMemoryRegions)
    memory.Read(answer_keys::Since(region.name), *predicted.mutable_memory_bytes());
  for (const char* name : {"total", "capacity"})
    memory.Read(answer_keys::Always(name), *predicted.mutable_memory_bytes());
  for (const char* name : {"allocated", "reserved", "total_low", "total_high"})
    memory.Read(answer_keys::Since(name), *predicted.mutable_memory_bytes());
}

// The file has the median and the number of the steps, but not their times.
void ReadMeasurement(const Part& part, v1::Measurement& measured) {
  part.Read(answer_keys::kMeasurement, measured);
  const std::int64_t steps = part.Whole("steps");
  if (steps < 1 || steps > kMostSteps) part.Fail(fmt::format("'steps' is not from 1 to {}", kMostSteps));
  for (std::int64_t step = 0; step < std::min(steps, kMostSteps); ++step)
    measured.add_step_time_s(measured.median_step_time_s());
  if (part.Has("breakdown_s")) ReadBreakdown(part, *measured.mutable_breakdown_s());
  if (!part.Has("engine") || part.Text("engine") == kOwnEngine) return;
  measured.set_engine(part.Text("engine"));
  part.Read(answer_keys::Since("engine_version"), measured);
}

void ReadPlan(const Part& part, v1::Candidate& candidate) {
  const ParallelPlan plan = part.Plan("plan");
  *candidate.mutable_plan() = ToProto(plan);
  candidate.set_plan_text(PlanText(plan));
}

void ReadCandidate(const Part& part, v1::Candidate& candidate) {
  ReadPlan(part, candidate);
  ReadPrediction(part.Object("predicted"), *candidate.mutable_predicted());
  if (part.Has("corrected")) ReadPrediction(part.Object("corrected"), *candidate.mutable_corrected());
  if (part.Has("measured")) ReadMeasurement(part.Object("measured"), *candidate.mutable_measured());
}

// The file has only time and memory of a plan of the front.
void ReadFrontPlan(const Part& part, v1::Candidate& candidate) {
  ReadPlan(part, candidate);
  part.Read(answer_keys::Always("step_time_s"), *candidate.mutable_predicted());
  candidate.mutable_predicted()->mutable_memory_bytes()->set_total(part.Whole("total_memory_bytes"));
  if (part.Text("provenance") == "measured")
    candidate.mutable_measured()->set_median_step_time_s(candidate.predicted().step_time_s());
}

void ReadCounts(const Part& whole, v1::Counts& counts) {
  whole.Object("counts").Read(answer_keys::kCounts, counts);
  const Part rejected = whole.Object("rejected");
  for (const auto& [reason, count] : whole.At("rejected").items())
    (*counts.mutable_rejected())[reason] = rejected.Whole(reason);
}

// Reads `why`. Requires the runners-up in `found`.
void ReadWhy(const Part& why, v1::Recommendation& found) {
  found.set_tied_not_shown(
      static_cast<int>(std::clamp<std::int64_t>(why.Whole("tied") - TiedWithBest(found), 0, kMostTied)));
  if (!why.Has("matters_most")) return;
  const Part most = why.Object("matters_most");
  v1::OptionEffect& effect = *found.mutable_matters_most();
  most.Read(answer_keys::kEffect, effect);
  most.Read(answer_keys::kCostsAlone, effect);
  if (most.Has("plan")) *effect.mutable_plan() = ToProto(most.Plan("plan"));
  if (effect.has_costs_alone()) *effect.mutable_plan_alone() = ToProto(most.Plan("plan_alone"));
}

void ReadTexts(const Part& whole, const char* name, std::vector<std::string>& texts) {
  const Json& list = whole.At(name);
  for (const Json& text : list) {
    if (!list.is_array() || !text.is_string()) return whole.Refuse(name, "a list of texts");
    texts.push_back(text.get<std::string>());
  }
}

// Reads the question, apart from what `best` has of it.
void ReadQuestion(const Part& whole, const BestPlan& best, absl::Status& lacks, SearchQuestion& question) {
  question.model = best.model;
  question.workload = best.workload;
  if (best.cluster) {
    question.cluster = *best.cluster;
  } else if (!whole.Has("cluster")) {
    whole.Refuse("cluster", "a cluster");
  } else if (auto cluster = ParseClusterJson(whole.At("cluster")); cluster.ok()) {
    question.cluster = *std::move(cluster);
  } else {
    lacks.Update(cluster.status());
  }
  question.cluster.engine.name = best.engine;
  if (auto engine = EngineNamed(best.engine); engine.ok()) {
    question.cluster.engine = *std::move(engine);
  } else if (!absl::IsNotFound(engine.status())) {  // a worker's engine has no file here
    lacks.Update(engine.status());
  }
  question.kept = whole.Has("study");
  question.predict_only = !whole.Has("device");
  if (const auto device = question.predict_only ? question.device : ParseEngineDevice(whole.Text("device"))) {
    question.device = *device;
  } else {
    whole.Refuse("device", "a device");
  }
  if (whole.Has("coordinator")) question.coordinator = whole.Text("coordinator");
  ReadTexts(whole, "not_considered", question.not_considered);
  ReadTexts(whole, "notes", question.notes);
}

void ReadAnswer(const Json& json, AnswerFile& file) {
  const Part best(json["best"], "best", file.best_lacks);
  v1::Recommendation& found = file.answer.found;
  ReadCandidate(best, *found.mutable_best());
  const Part whole(json, "", file.lacks);
  if (!whole.Has("counts") && !whole.Has("search"))
    whole.Fail("the file does not hold the answer of a search");
  file.lacks.Update(file.best_lacks);
  ReadQuestion(whole, file.best, file.lacks, file.answer.question);
  if (best.Has("measured") && best.Object("measured").At("emulated") == true)
    file.answer.question.device = EngineDevice::kPaced;
  if (whole.Has("study")) found.set_study(whole.Text("study"));
  whole.Read(answer_keys::Always("memory_margin"), found);
  for (const Part& part : whole.List("runners_up")) ReadCandidate(part, *found.add_runners_up());
  for (const Part& part : whole.List("pareto_memory")) ReadFrontPlan(part, *found.add_pareto_memory());
  ReadCounts(whole, *found.mutable_counts());
  ReadWhy(whole.Object("why"), found);
  if (whole.Has("measured_not_shown"))  // files of earlier versions lack it
    found.set_measured_not_shown(static_cast<int>(std::min(whole.Whole("measured_not_shown"), kMostTied)));
  whole.Object("search").Read(answer_keys::kSearch, found);
  found.set_provenance(std::string(Provenance(found.best())));
  if (whole.Has("versions")) file.build_id = whole.Object("versions").Text("build_id");
}

// Reads what a run needs.
absl::StatusOr<BestPlan> ReadBest(const Json& json) {
  if (json.is_object() && json.contains("questions")) {
    return absl::InvalidArgumentError(
        "it holds the answers to several questions; give the file of a search with one");
  }
  for (const char* part : {"model", "workload", "best"}) {
    if (!json.is_object() || !json.contains(part))
      return absl::InvalidArgumentError(fmt::format("'{}' is missing; {}", part, kGiveAnswer));
  }
  if (json["best"].is_null()) {
    return absl::FailedPreconditionError(
        "this search found no plan that fits; give the answer of another search");
  }
  absl::Status status;
  const Part whole(json, "", status), found = whole.Object("best");
  const Json& plan_json = found.At("plan");
  if (plan_json.empty()) found.Fail(plan_json.is_null() ? "'plan' is missing" : "'plan' is empty");
  AUTOCFG_RETURN_IF_ERROR(status);
  BestPlan best;
  AUTOCFG_ASSIGN_OR_RETURN(best.model, ParseModelJson(json["model"]));
  v1::Workload workload;
  const Part of_workload = whole.Object("workload");
  of_workload.Read(answer_keys::kWorkload, workload);
  if (of_workload.Has("optimizer")) workload.mutable_optimizer()->set_name(of_workload.Text("optimizer"));
  if (of_workload.Has("momentum")) workload.mutable_optimizer()->set_momentum(of_workload.Number("momentum"));
  AUTOCFG_RETURN_IF_ERROR(status);
  AUTOCFG_ASSIGN_OR_RETURN(best.workload, FromProto(workload));
  auto plan = ParsePlanJson(plan_json);
  if (!plan.ok()) return base::WithSubject("best: plan", plan.status());
  best.plan = *std::move(plan);
  const Json& cluster = whole.At("cluster");
  best.local = cluster.is_object() && Part(cluster, "cluster", status).At("local") == true;
  if (cluster.is_object() && !best.local) {
    AUTOCFG_ASSIGN_OR_RETURN(best.cluster, ParseClusterJson(cluster));
  }
  best.remote = json.contains("coordinator");
  if (whole.At("engine").is_string()) best.engine = whole.Text("engine");
  if (whole.Has("memory_margin")) best.memory_margin = whole.Number("memory_margin");
  if (whole.Has("layout")) {
    const std::int64_t ranks = RankCount(best.plan);
    best.ranks_per_node = whole.Object("layout").Whole("ranks_per_node");
    if (best.ranks_per_node < 1 || ranks % best.ranks_per_node != 0)
      whole.Fail(fmt::format("layout: 'ranks_per_node' does not divide the {} ranks of the plan", ranks));
  }
  AUTOCFG_RETURN_IF_ERROR(status);
  if (best.memory_margin) AUTOCFG_RETURN_IF_ERROR(CheckMemoryMargin(*best.memory_margin));
  return best;
}

}  // namespace

absl::StatusOr<AnswerFile> ReadAnswerFile(std::string_view text) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto json, base::ParseJson("answer", text));
  AnswerFile file;
  AUTOCFG_ASSIGN_OR_RETURN(file.best, ReadBest(json));
  ReadAnswer(json, file);
  return file;
}

}  // namespace autocfg
