// autocfg import: reads a training framework's file, and says what would make its plan faster.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/input/files.h"
#include "cli/input/inputs.h"
#include "cli/input/option_values.h"
#include "cli/question/framework_input.h"
#include "cli/question/plan_advice.h"
#include "cli/report/framework_report.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "search/frameworks/export_target.h"

namespace autocfg::cli {
namespace {

struct ImportArgs {
  FrameworkInputArgs input;
  std::string output, memory_margin;
  bool json = false;
};

// A cluster with as many ranks as the file's run has, of the same nodes. Appends that it is a part.
absl::Status TakeRanks(std::int64_t ranks, ClusterSpec& cluster, std::vector<std::string>& notes) {
  const std::int64_t all = RankCount(cluster);
  if (ranks == all) return absl::OkStatus();
  if (ranks > all) {
    return absl::InvalidArgumentError(
        fmt::format("--cluster: {} has {} ranks, and the file trains on {}; give one with as many",
                    cluster.name, all, ranks));
  }
  NodeGroup& group = cluster.groups.front();
  if (cluster.groups.size() > 1 || (ranks > group.gpus_per_node && ranks % group.gpus_per_node != 0)) {
    return absl::InvalidArgumentError(
        fmt::format("--cluster: {} ranks of the file are no whole nodes of {}; give one with as many", ranks,
                    cluster.name));
  }
  group.nodes = std::max<std::int64_t>(1, ranks / group.gpus_per_node);
  group.gpus_per_node = std::min(ranks, group.gpus_per_node);
  const std::string whole = cluster.name;
  cluster.name = fmt::format("{}:{}x{}", cluster.name.substr(0, cluster.name.find(':')), group.nodes,
                             group.gpus_per_node);
  notes.push_back(fmt::format("the file trains on {} ranks, and {} has {}: predicted on a part of it, {}",
                              ranks, whole, all, cluster.name));
  return absl::OkStatus();
}

absl::StatusOr<PlanQuestion> QuestionFor(const ImportArgs& args, const FrameworkRun& run,
                                         std::vector<std::string>& notes) {
  AUTOCFG_ASSIGN_OR_RETURN(auto cluster, LoadDescribedCluster(args.input.cluster));
  AUTOCFG_RETURN_IF_ERROR(TakeRanks(run.ranks, cluster, notes));
  BestPlan known = QuestionOf(run);
  known.cluster = std::move(cluster);
  PlanQuestionArgs asked;
  asked.engine = run.engine;
  asked.memory_margin = args.memory_margin;
  return LoadPlanQuestion(asked, &known);
}

BetterPlan BetterOf(AdvisedPlan advised, const FrameworkInput& input) {
  BetterPlan better{.change = std::move(advised.change), .predicted = std::move(advised.predicted)};
  const auto changed = ChangePlan(input.run, better.predicted.plan, input.options);
  if (changed.ok()) {
    better.lines = changed->lines;
    better.besides = changed->besides;
  } else {
    better.unchanged = Text(changed.status());
  }
  return better;
}

absl::Status Advise(const ImportArgs& args, const FrameworkInput& input, FrameworkAnswer& answer,
                    SearchQuestion& about) {
  AUTOCFG_ASSIGN_OR_RETURN(auto question, QuestionFor(args, input.run, answer.notes));
  AUTOCFG_ASSIGN_OR_RETURN(answer.predicted, question.predictor.Predict(question.plan));
  answer.notes.insert(answer.notes.end(), question.notes.begin(), question.notes.end());
  answer.notes.insert(answer.notes.end(), answer.predicted->notes.begin(), answer.predicted->notes.end());
  if (auto change = BestChange(question, *answer.predicted))
    answer.one_change = BetterOf(*std::move(change), input);
  AUTOCFG_ASSIGN_OR_RETURN(auto faster, FastestPlan(question, *answer.predicted));
  if (faster) answer.faster = BetterOf(*std::move(faster), input);
  about = question.about;
  return absl::OkStatus();
}

absl::Status WriteOutput(const ImportArgs& args, const FrameworkAnswer& answer, const SearchQuestion& about) {
  ExportedRun run;
  run.model = answer.run.model;
  run.workload = answer.run.workload;
  run.plan = answer.run.plan;
  run.evidence.engine = answer.run.engine;
  run.ranks_per_node = answer.run.ranks_per_node;
  if (answer.predicted) run.cluster = about.cluster;
  AUTOCFG_ASSIGN_OR_RETURN(const auto file, Export(run, *FindExportTarget("autocfg")));
  return Where("--output", WriteFileAtomically(args.output, file.text));
}

int RunImport(const ImportArgs& args) {
  if (args.input.file.empty())
    return Fail(kExitUsage, "import: FILE is missing; give the framework's file or launch script");
  if (auto status = CheckOtherFile(
          {"--output", args.output},
          {{"FILE", args.input.file}, {"--model", args.input.model}, {"--cluster", args.input.cluster}});
      !status.ok())
    return Fail(status);
  auto input = LoadFrameworkInput(args.input);
  if (!input.ok()) return Fail(input.status());
  FrameworkAnswer answer{.run = input->run};
  answer.notes = input->run.notes;
  SearchQuestion about;
  about.model = input->run.model;
  about.workload = input->run.workload;
  if (!args.input.cluster.empty()) {
    if (auto status = Advise(args, *input, answer, about); !status.ok())
      return Fail(OfOption(status, args.input.cluster));
  } else if (!args.memory_margin.empty()) {
    return Fail(kExitUsage, "--memory-margin is for a prediction; give --cluster too");
  }
  if (!args.output.empty()) {
    if (auto status = WriteOutput(args, answer, about); !status.ok()) return Fail(status);
  }
  const std::string text =
      args.json ? FrameworkJson(answer, about).dump(2) + "\n" : FrameworkReport(answer, about);
  if (const int code = Answer(text); code != kExitDone) return code;
  for (const std::string& note : answer.notes) Note(note);
  if (answer.predicted && !answer.predicted->prediction.feasible && !answer.one_change && !answer.faster) {
    return Fail(kExitNegative,
                fmt::format("the plan of {} does not fit, and no other that {} can express does; give a "
                            "larger --cluster",
                            answer.run.settings.file, answer.run.framework));
  }
  return kExitDone;
}

}  // namespace

void AddImport(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand(
      "import", "read a training framework's file or launch script, and say what would make it faster");
  const auto args = std::make_shared<ImportArgs>();
  verb->add_option("FILE", args->input.file,
                   "the file: flags or a bash script, YAML, JSON or TOML; nothing of it is run");
  verb->add_option("--from", args->input.from,
                   base::ChoiceText(SourceNames()) + "; by default as the file's form says");
  verb->add_option("--cluster", args->input.cluster,
                   "predict the plan there, and look for a faster one: a preset with its size, such as "
                   "h100-sxm:64x8, or a file");
  verb->add_option("--model", args->input.model,
                   "in place of the file's model: a preset or a model's JSON file");
  verb->add_option("--ranks", args->input.ranks,
                   "how many ranks train, if the file does not say it, or in place of those that a script "
                   "starts (default: the cluster's)");
  verb->add_option("--vocab", args->input.vocab, "tokens of the vocabulary, if the file does not say them");
  verb->add_option("--seq-len", args->input.seq_len, "in place of the file's tokens per sequence");
  verb->add_option("--plan", args->input.plan,
                   "options of the plan that the file leaves to a script, such as recompute=full");
  verb->add_option("--env", args->input.environment,
                   "NAME=VALUE, a variable that is set where the script is launched; may be repeated")
      ->allow_extra_args(false);
  verb->add_option(
      "ARGS", args->input.arguments,
      "behind --: the arguments of the script, or options that are said where the file is launched");
  verb->add_option("--memory-margin", args->memory_margin,
                   "the share of a rank's memory that a plan must leave free, such as 10% (default: 5%, "
                   "or the error that the engine's file says)");
  verb->add_option("--output", args->output,
                   "write model, batch and plan here, for predict, train, export and explain --input");
  verb->add_flag("--json", args->json, "the answer as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunImport(*args); }; });
}

}  // namespace autocfg::cli
