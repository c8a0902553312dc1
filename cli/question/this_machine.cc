#include "cli/question/this_machine.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "cli/input/optimizer_choice.h"
#include "cli/study/kept_op_times.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/convert/trainer_convert.h"
#include "search/planner/calibration_ops.h"
#include "search/planner/recalibration/recalibration.h"
#include "search/text/model_json.h"
#include "server/studies/study_op_times.h"

namespace autocfg::cli {
namespace {

// Returns true if --model takes the model's name for this model.
bool IsPreset(const PredictionQuestion& question) {
  auto preset = ModelPreset(question.model.name);
  if (!preset.ok()) return false;
  FillDefaults(*preset, question.workload.seq_len);
  return *preset == question.model;
}

absl::Status WithoutOpTimes(const PredictionQuestion& question, const ThisMachineOptions& options,
                            std::string_view why) {
  const std::string db = options.database.empty() ? "" : fmt::format(" --db {}", ShellWord(options.database));
  // A search takes the model of an answer's file too.
  std::string model = options.model.empty() ? options.input : options.model, of_file;
  if (model.empty() && IsPreset(question)) model = question.model.name;
  if (model.empty()) {
    model = "MODEL.json";
    of_file = options.study.empty()
                  ? ", where MODEL.json is a file with the model"
                  : fmt::format(
                        ", where MODEL.json has the study's model: autocfg export --study {}{} --to "
                        "autocfg --output MODEL.json writes it",
                        ShellWord(options.study), db);
  }
  return absl::FailedPreconditionError(fmt::format(
      "--cluster: {}; autocfg search --predict-only --model {} --cluster {} --global-batch {} "
      "--seq-len {} --precision {}{}{} measures them{}",
      why, ShellWord(model), options.cluster, question.workload.global_batch, question.workload.seq_len,
      PrecisionText(question.workload.precision), OptimizerOptionsText(question.workload), db, of_file));
}

// Returns whether the time of `op` says that of `other` well enough: they differ in one size at most, as ops
// of a model with other microbatches or another tensor size do, and their work is not far apart. A search
// estimates in the same way what its time budget leaves out.
bool IsSameWork(const OpDesc& op, const OpDesc& other) {
  constexpr double kMostTimesApart = 16;
  if (op.kind != other.kind || op.dtype != other.dtype) return false;
  int apart = 0;
  for (std::size_t i = 0; i < op.dims.size(); ++i) apart += op.dims[i] != other.dims[i] ? 1 : 0;
  const double work = std::max(Flops(op), MinBytes(op)), of_other = std::max(Flops(other), MinBytes(other));
  return apart <= 1 && work <= kMostTimesApart * of_other && of_other <= kMostTimesApart * work;
}

}  // namespace

absl::StatusOr<Predictor> PredictorOfThisMachine(const PredictionQuestion& question, const RunDevice& device,
                                                 const ThisMachineOptions& options,
                                                 std::vector<std::string>& notes) {
  const auto kept = KeptOpTimes(options.database, device.machine, RankCount(question.cluster));
  if (absl::IsFailedPrecondition(kept.status()))
    return WithoutOpTimes(question, options, Text(kept.status()));
  if (!kept.ok()) return Where("--db", kept.status());
  server::SearchProblem problem;
  problem.model = question.model;
  problem.workload = question.workload;
  problem.cluster = question.cluster;
  problem.device = device.engine;
  AUTOCFG_ASSIGN_OR_RETURN(const auto known, server::OpTimesOf(problem, *kept));
  // Without observations: the priors of a search.
  const auto prior =
      std::make_shared<const Recalibration>(question.model.layers, std::vector<RatioObservation>());
  auto predictor = Predictor::Create(question, question.memory_margin,
                                     {.times = known->times,
                                      .device_overhead_bytes = known->device_overhead_bytes,
                                      .sigma = [prior](const ParallelPlan& plan, const Breakdown& step) {
                                        return prior->For(plan, step).sigma;
                                      }});
  if (!predictor.ok()) return predictor;
  AUTOCFG_ASSIGN_OR_RETURN(const auto plan, predictor->Resolve(question.plan));
  absl::flat_hash_set<OpDesc, OpDescHash> timed;
  for (const v1::OpTime& time : kept->result.ops()) {
    if (const auto op = FromProto(time.op()); op.ok()) timed.insert(*op);
  }
  const std::vector<OpDesc> ops =
      ListCalibrationOps(question.model, question.workload, {plan}, std::numeric_limits<std::size_t>::max());
  // The first compute takes the most time. If nothing like it was timed, the calibration was of another
  // question, and the small ops that all models share say little of this one.
  const auto first =
      std::find_if(ops.begin(), ops.end(), [](const OpDesc& op) { return !IsCommunication(op.kind); });
  if (first != ops.end() &&
      std::none_of(timed.begin(), timed.end(), [&](const OpDesc& op) { return IsSameWork(op, *first); }))
    return WithoutOpTimes(question, options,
                          "no search here has timed an op like the one that takes most of this plan's time");
  const auto measured =
      std::count_if(ops.begin(), ops.end(), [&](const OpDesc& op) { return timed.contains(op); });
  notes.push_back(fmt::format(
      "predicted from op times measured on this machine: {} of the plan's {}{}", measured, ops.size(),
      measured < static_cast<std::ptrdiff_t>(ops.size()) ? ", from which the others are estimated" : ""));
  return predictor;
}

}  // namespace autocfg::cli
