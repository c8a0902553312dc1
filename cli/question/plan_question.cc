#include "cli/question/plan_question.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/worker_pool.h"
#include "cli/input/devices.h"
#include "cli/input/inputs.h"
#include "cli/input/option_values.h"
#include "cli/question/memory_advice.h"
#include "cli/question/this_machine.h"
#include "cli/terminal/console.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "search/plan/plan_text.h"
#include "search/question/prediction_question.h"
#include "search/text/engines.h"
#include "search/text/plan_json.h"

namespace autocfg::cli {

void AddPlanQuestion(CLI::App* verb, PlanQuestionArgs& args) {
  verb->add_option("--model", args.model, "a preset, such as gpt3-175b, or a model's JSON file");
  verb->add_option("--cluster", args.cluster,
                   "a preset with its size, such as a100-80gb-sxm:64x8 (64 nodes of 8), a file, or local: "
                   "this machine, by the op times that searches have kept in the database");
  verb->add_option("--global-batch", args.global_batch, "sequences per step");
  verb->add_option("--plan", args.plan, "such as tp=8,pp=8,dp=8,mbs=1,recompute=full");
  verb->footer("Options of a plan:\n" + PlanOptionsHelp());
  verb->add_option("--seq-len", args.seq_len,
                   "tokens per sequence, such as 8192 or 8k (k is 1024; default: the model's max_seq_len)");
  verb->add_option("--precision", args.precision,
                   "bf16 (default; on CPUs fp32), fp16, fp32, fp64, fp8, fp8_block, mxfp8 or nvfp4; types of "
                   "states may follow: bf16:grads=bf16,moments=bf16,master=none");
  AddOptimizerChoice(verb, args.optimizer);
  verb->add_option("--engine", args.engine,
                   fmt::format("whose training step is predicted: {}; default {}",
                               base::ChoiceText(EngineNames()), kOwnEngine));
  verb->add_option(
      "--memory-margin", args.memory_margin,
      "the share of a rank's memory that a plan must leave free to fit, such as 5% or 0.05; 0 for none "
      "(default: 5%, or the error that the engine's file says)");
}

std::string FirstGiven(const PlanQuestionArgs& args) {
  for (const auto& [name, value] : {std::pair<const char*, const std::string*>{"--model", &args.model},
                                    {"--cluster", &args.cluster},
                                    {"--global-batch", &args.global_batch},
                                    {"--plan", &args.plan},
                                    {"--seq-len", &args.seq_len},
                                    {"--precision", &args.precision},
                                    {"--optimizer", &args.optimizer.name},
                                    {"--momentum", &args.optimizer.momentum},
                                    {"--engine", &args.engine},
                                    {"--memory-margin", &args.memory_margin}}) {
    if (!value->empty()) return name;
  }
  return "";
}

namespace {

// Sets the cluster to this machine. Appends why it uses no GPU that it has. Returns its device.
absl::StatusOr<RunDevice> LoadThisMachine(const PlanQuestionArgs& args, QuestionParts& parts,
                                          std::vector<std::string>& notes) {
  auto device = ChooseDevice(std::nullopt, args.precision);
  if (!device.ok()) return device.status();
  AUTOCFG_ASSIGN_OR_RETURN(auto cluster, LoadCluster(args.cluster, device->machine));
  AUTOCFG_ASSIGN_OR_RETURN(const auto precision, UsesGpus(device->engine) ? LoadGpuPrecision(args.precision)
                                                                          : LoadPrecision(args.precision));
  if (!args.engine.empty() && args.engine != kOwnEngine) {
    return absl::InvalidArgumentError(
        fmt::format("--engine: the op times of this machine are those of {}; leave --engine out, or give a "
                    "described --cluster",
                    kOwnEngine));
  }
  parts.cluster = std::move(cluster);
  parts.precision = PrecisionText(precision);
  parts.measured = true;
  notes.insert(notes.end(), device->notes.begin(), device->notes.end());
  return device;
}

// Predicts the step of the engine that the question had, where its figures are known.
void TakeEngine(const std::string& engine, bool this_machine, QuestionParts& parts,
                std::vector<std::string>& notes) {
  if (engine.empty() || engine == kOwnEngine) return;
  if (!this_machine && EngineNamed(engine).ok()) {
    parts.engine = engine;
    return;
  }
  notes.push_back(fmt::format(
      "the plan was found for the engine {}; {}, so the step is that of {}", base::Printable(engine),
      this_machine ? "the op times of this machine are not its" : "autocfg has no figures of it",
      kOwnEngine));
}

// Returns the parts that the options name, beside those of `known`. Appends what is to be said of the model.
// Sets `machine` if the cluster is this one.
absl::StatusOr<QuestionParts> PartsOf(const PlanQuestionArgs& args, const BestPlan* known,
                                      std::vector<std::string>& notes, std::optional<RunDevice>& machine) {
  struct Required {
    const char* name;
    const std::string* value;
    const char* instead;
  };
  for (const auto& [name, value, instead] :
       {Required{"--model", &args.model, "give a preset, such as gpt3-175b, or a file"},
        Required{"--cluster", &args.cluster,
                 "give a preset with its size, such as a100-80gb-sxm:64x8, a file, or local"},
        Required{"--global-batch", &args.global_batch, "give the sequences per step"},
        Required{"--plan", &args.plan, "give one such as tp=8,pp=8,dp=8,mbs=1"}}) {
    if (known == nullptr && value->empty())
      return absl::InvalidArgumentError(fmt::format("{} is missing; {}", name, instead));
  }
  QuestionParts parts;
  if (known != nullptr) {
    parts.model = known->model;
    parts.plan = known->plan;
    parts.global_batch = known->workload.global_batch;
    parts.seq_len = known->workload.seq_len;
    parts.precision = PrecisionText(known->workload.precision);
    parts.optimizer = Name(known->workload.optimizer.kind);
    parts.momentum = known->workload.optimizer.momentum;
    // It is that of the search's cluster. Of this machine, the question names it (StayOnThisMachine).
    if (args.cluster.empty() || (known->local && IsOfThisMachine(args)))
      parts.memory_margin = known->memory_margin;
    if (known->cluster) parts.cluster = *known->cluster;
    if (!known->cluster && !known->local && args.cluster.empty()) {
      const std::int64_t each = known->ranks_per_node > 0 ? known->ranks_per_node : 8;
      const std::int64_t nodes = std::max<std::int64_t>(1, RankCount(known->plan) / each);
      return absl::InvalidArgumentError(
          fmt::format("--cluster is missing: the file names no cluster; give a preset with its size, such as "
                      "h100-sxm:{}x{}, or a file",
                      nodes, each));
    }
    if (!known->cluster && args.cluster.empty()) {
      return absl::InvalidArgumentError(
          "--cluster is missing: the search was of the coordinator's workers, whose op times are not in its "
          "answer; name a described cluster, or see what was measured with autocfg explain");
    }
  }
  if (!args.global_batch.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(parts.global_batch,
                             ParseWhole("--global-batch", args.global_batch, 1, kMaxGlobalBatch));
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto named_len, LoadSeqLen(args.seq_len));
  if (named_len != 0) parts.seq_len = named_len;
  if (!args.model.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(parts.model, LoadModel(args.model, parts.seq_len, notes));
  }
  if (!args.cluster.empty() && IsOfThisMachine(args)) {
    AUTOCFG_ASSIGN_OR_RETURN(machine, LoadThisMachine(args, parts, notes));
  } else if (!args.cluster.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(parts.cluster, LoadDescribedCluster(args.cluster));
  }
  if (!args.plan.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(parts.plan, LoadPlan(args.plan));
  }
  if (!args.memory_margin.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(parts.memory_margin, ParseShare("--memory-margin", args.memory_margin));
  }
  parts.engine = args.engine;
  if (known != nullptr && args.engine.empty()) TakeEngine(known->engine, machine.has_value(), parts, notes);
  if (!args.precision.empty() && !machine) parts.precision = args.precision;
  if (!args.optimizer.name.empty()) {
    parts.optimizer = args.optimizer.name;
    parts.momentum.reset();
  }
  if (!args.optimizer.momentum.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(parts.momentum, MomentumOf(args.optimizer));
  }
  return parts;
}

}  // namespace

bool IsOfThisMachine(const PlanQuestionArgs& args) { return IsLocalName(args.cluster); }

void StayOnThisMachine(const BestPlan& known, PlanQuestionArgs& args) {
  if (!known.local || known.remote || !args.cluster.empty()) return;
  args.cluster = fmt::format("local:1x{}", RankCount(known.plan));
  if (args.precision.empty()) args.precision = PrecisionText(known.workload.precision);
}

absl::StatusOr<PlanQuestion> LoadPlanQuestion(const PlanQuestionArgs& args, const BestPlan* known) {
  std::vector<std::string> notes;
  std::optional<RunDevice> machine;
  AUTOCFG_ASSIGN_OR_RETURN(auto parts, PartsOf(args, known, notes, machine));
  auto question = MakePredictionQuestion(std::move(parts));
  if (!question.ok()) return OfOption(question.status(), args.cluster);
  auto predictor = machine ? PredictorOfThisMachine(
                                 *question, *machine,
                                 {args.model, args.cluster, args.database, args.study, args.input}, notes)
                           : Predictor::Create(*question, question->memory_margin);
  if (!predictor.ok()) return OfOption(predictor.status(), args.cluster);
  for (std::string& note : question->notes) notes.push_back(std::move(note));
  AddUnitNote("--seq-len", base::Quantity::kSequenceLength, args.seq_len, notes);
  ParallelPlan plan = std::move(question->plan);
  return PlanQuestion{{std::move(*question)}, std::move(plan), *std::move(predictor), std::move(notes)};
}

int EndOf(const PlanPrediction& predicted) {
  const Prediction& p = predicted.prediction;
  if (p.feasible) return kExitDone;
  const std::string advice = MemoryAdvice(predicted.plan, p.memory);
  if (p.memory.Total() <= p.capacity_bytes) {
    return Fail(kExitNegative,
                fmt::format("--plan: {} leaves less memory free than the memory margin: {}, or a smaller "
                            "--memory-margin",
                            PlanText(predicted.plan), advice));
  }
  return Fail(kExitNegative, fmt::format("--plan: {} does not fit: {}", PlanText(predicted.plan), advice));
}

std::string NotesOf(const PlanPrediction& predicted, const std::vector<std::string>& notes) {
  std::string lines;
  for (const auto& note : notes) {
    if (predicted.prediction.feasible) {
      Note(note);
    } else {
      lines += Wrapped(fmt::format("note: {}", note));
    }
  }
  return lines;
}

}  // namespace autocfg::cli
