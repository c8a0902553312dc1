#include "search/question/prediction_question.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/text/engines.h"
#include "search/text/typical_figures.h"

namespace autocfg {

absl::Status LocalHasNoFigures() {
  return base::InvalidArgument(
      "cluster",
      "local has no figures to predict from; give a description of a cluster (in the CLI also a preset, such "
      "as a100-80gb-sxm:1x8), or measure this one with a study (`autocfg search`)");
}

std::string_view DefaultPredictedPrecision(const ClusterSpec& cluster) {
  if (cluster.groups.empty()) return "bf16";
  const DeviceSpec& device = cluster.groups.front().device;
  if (device.kind == DeviceKind::kCpu) return "fp32";
  return device.flops_per_s_bf16 == 0 && device.flops_per_s_fp16 > 0 ? "fp16" : "bf16";
}

std::string PrecisionNote(const ClusterSpec& cluster) {
  if (cluster.groups.empty()) return "";
  const DeviceSpec& device = cluster.groups.front().device;
  const std::string_view name =
      device.name.empty() ? std::string_view("the device") : std::string_view(device.name);
  if (device.kind_assumed) {
    return fmt::format(
        "predicted in fp32: {} is taken for a CPU, since it has no rate in bf16 or fp16; give kind cuda if "
        "it is a GPU",
        name);
  }
  if (DefaultPredictedPrecision(cluster) != "fp16") return "";
  return fmt::format("predicted in fp16, since {} has no bf16", name);
}

std::string CalibratedEngineNote(const ClusterSpec& cluster) {
  if (!cluster.calibration || cluster.engine.name == kOwnEngine) return "";
  return fmt::format(
      "the cluster is calibrated, so steps take what its measured ones say; the engine {} decides on legal "
      "plans and memory alone",
      cluster.engine.name);
}

absl::StatusOr<PredictionQuestion> MakePredictionQuestion(QuestionParts parts) {
  PredictionQuestion question{
      {{std::move(parts.model), {.global_batch = parts.global_batch}, std::move(parts.cluster)},
       std::move(parts.plan)}};
  FillDefaults(question.model, parts.seq_len);
  if (question.cluster.local && !parts.measured) return LocalHasNoFigures();
  if (!parts.engine.empty()) {
    absl::StatusOr<EngineProfile> engine = EngineNamed(parts.engine);
    if (!engine.ok()) {
      return base::OptionError(absl::StatusCode::kInvalidArgument, "request", "engine",
                               base::ProblemOf(engine.status()));
    }
    question.cluster.engine = *std::move(engine);
    if (std::string note = CalibratedEngineNote(question.cluster); !note.empty())
      question.notes.push_back(std::move(note));
  }
  question.workload.seq_len = parts.seq_len != 0 ? parts.seq_len : question.model.max_seq_len;
  if (parts.precision.empty()) {
    parts.precision = DefaultPredictedPrecision(question.cluster);
    if (std::string note = PrecisionNote(question.cluster); !note.empty())
      question.notes.push_back(std::move(note));
  }
  if (std::string note = parts.measured ? "" : AssumeTypicalFigures(question.cluster); !note.empty())
    question.notes.push_back(std::move(note));
  const std::optional<Precision> precision = ParsePrecision(parts.precision);
  if (!precision) {
    return base::OptionError(absl::StatusCode::kInvalidArgument, "request", "precision",
                             UnknownPrecision(parts.precision));
  }
  question.workload.precision = *precision;
  question.notes.insert(question.notes.end(), question.cluster.read_as.begin(),
                        question.cluster.read_as.end());
  question.memory_margin = parts.memory_margin.value_or(DefaultMemoryMargin(question.cluster));
  if (const absl::Status status = CheckMemoryMargin(question.memory_margin); !status.ok())
    return base::InvalidArgument("request", std::string(status.message()));
  return question;
}

absl::StatusOr<PlanPrediction> Answer(const PredictionQuestion& question, PredictorCache& predictors) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto predictor, predictors.Find(question, question.memory_margin));
  return predictor->Predict(question.plan);
}

}  // namespace autocfg
