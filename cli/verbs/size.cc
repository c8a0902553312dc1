// autocfg size: recommends the size of a model for a budget of GPUs and days, by predictions.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/input/files.h"
#include "cli/input/inputs.h"
#include "cli/input/option_values.h"
#include "cli/input/training_options.h"
#include "cli/report/size_report.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "search/question/defaults.h"
#include "search/sizing/size_search.h"
#include "search/text/cluster_json.h"
#include "search/text/engines.h"
#include "search/text/model_json.h"

namespace autocfg::cli {
namespace {

constexpr std::int64_t kDefaultSeqLen = 4096;  // that of Llama 2
constexpr std::int64_t kMostGpus = 1'000'000;
struct SizeArgs {
  std::string gpus, days, cluster, global_batch, seq_len, precision, engine{kOwnEngine}, save;
  TrainingOptions training;  // tokens and price
  bool json = false;
  std::string program;  // command that starts this program
};

// Loads the cluster with so many GPUs: whole nodes, or a part of one.
absl::StatusOr<ClusterSpec> LoadClusterOf(const std::string& text, std::int64_t gpus) {
  auto cluster = LoadDescribedCluster(text);
  if (!cluster.ok()) return cluster.status();
  if (cluster->groups.size() != 1)
    return absl::InvalidArgumentError(
        fmt::format("--cluster: {}: it has several kinds of nodes; give one of one kind", text));
  NodeGroup& group = cluster->groups.front();
  if (gpus < group.gpus_per_node) {
    group.nodes = 1;
    group.gpus_per_node = gpus;
  } else if (gpus % group.gpus_per_node == 0) {
    group.nodes = gpus / group.gpus_per_node;
  } else {
    const std::int64_t less = gpus / group.gpus_per_node * group.gpus_per_node;
    return absl::InvalidArgumentError(
        fmt::format("--gpus: {} GPUs are not whole nodes of {} (--cluster {}); give {} or {}", gpus,
                    group.gpus_per_node, text, less, less + group.gpus_per_node));
  }
  if (const auto preset = PresetCluster(text); preset.ok()) {
    cluster->name = fmt::format("{}:{}x{}", text.substr(0, text.find(':')), group.nodes, group.gpus_per_node);
  }
  return cluster;
}

absl::StatusOr<SizeAsked> LoadSize(const SizeArgs& args) {
  for (const auto& [name, value, instead] :
       {std::tuple{"--gpus", &args.gpus, "give the number of GPUs"},
        std::tuple{"--days", &args.days, "give the days that the run may take"},
        std::tuple{"--cluster", &args.cluster, "give a preset, such as h100-sxm, or a file"}}) {
    if (value->empty()) return absl::InvalidArgumentError(fmt::format("{} is missing; {}", name, instead));
  }
  SizeAsked asked;
  SizeQuestion& question = asked.question;
  AUTOCFG_ASSIGN_OR_RETURN(const auto gpus, ParseWhole("--gpus", args.gpus, 1, kMostGpus));
  AUTOCFG_ASSIGN_OR_RETURN(question.days, ParseReal("--days", args.days, 1e-6, 1e6));
  AUTOCFG_ASSIGN_OR_RETURN(const auto terms, LoadTrainingTerms(args.training));
  asked.terms = terms;
  question.tokens = terms.tokens;
  if (!args.global_batch.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(question.global_batch,
                             ParseWhole("--global-batch", args.global_batch, 1, kMaxGlobalBatch));
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto seq_len, LoadSeqLen(args.seq_len));
  question.seq_len = seq_len > 0 ? seq_len : kDefaultSeqLen;
  AUTOCFG_ASSIGN_OR_RETURN(question.cluster, LoadClusterOf(args.cluster, gpus));
  const auto precision =
      ResolveDefaults(args.engine, args.precision, DeviceTimes::kPredicted, question.cluster, asked.notes);
  if (!precision.ok()) return OfOption(precision.status(), args.cluster);
  question.precision = *precision;
  for (std::string& note : UnitNotes(args.training)) asked.notes.push_back(std::move(note));
  AddUnitNote("--seq-len", base::Quantity::kSequenceLength, args.seq_len, asked.notes);
  return asked;
}

// Returns the search of all plans of the saved model. Empty without --save, and for a part of a node of a
// cluster file, which `search` cannot name.
std::string NextSearch(const SizeArgs& args, const SizedModel& best, const ClusterSpec& cluster) {
  if (args.save.empty()) return "";
  std::string named = cluster.name;
  if (!PresetCluster(args.cluster).ok()) {
    const auto whole = LoadDescribedCluster(args.cluster);
    const NodeGroup& group = cluster.groups.front();
    if (!whole.ok() || whole->groups.front().gpus_per_node != group.gpus_per_node) return "";
    named = fmt::format("{} --nodes {}", ShellWord(args.cluster), group.nodes);
  }
  return fmt::format("{} search --predict-only --model {} --cluster {} --global-batch {} --seq-len {}",
                     args.program, ShellWord(args.save), named, best.workload.global_batch,
                     best.workload.seq_len);
}

int RunSize(const SizeArgs& args) {
  const auto asked = LoadSize(args);
  if (!asked.ok()) return Fail(asked.status());
  if (!args.save.empty()) {
    if (auto status = CheckWritable(args.save); !status.ok())
      return Fail(kExitUsage, fmt::format("--save: {}", Text(status)));
  }
  const Interrupt interrupt;
  const auto answer =
      RecommendSize(asked->question, [&](const PlanningProgress&) { return !interrupt.requested(); });
  if (interrupt.requested()) return Fail(kExitInterrupted, "interrupted; the same command starts again");
  if (!answer.ok()) return Fail(OfOption(answer.status(), args.cluster));
  for (const std::string& note : asked->notes) Note(note);
  if (!answer->best) {
    if (args.json) {
      if (const int code = Answer(SizeJson(*answer, *asked).dump(2) + "\n"); code != kExitDone) return code;
    }
    return Fail(kExitNegative, WhyNone(*answer, *asked));
  }
  if (!args.save.empty()) {
    if (auto status = WriteFileAtomically(args.save, ModelJson(answer->best->model).dump(2) + "\n");
        !status.ok())
      return Fail(kExitNegative, fmt::format("--save: {}", Text(status)));
  }
  return Answer(args.json
                    ? SizeJson(*answer, *asked).dump(2) + "\n"
                    : SizeReport(*answer, *asked, NextSearch(args, *answer->best, asked->question.cluster)));
}

}  // namespace

void AddSize(CLI::App& app, Verb& chosen, const std::string& program) {
  CLI::App* verb =
      app.add_subcommand("size", "recommend a model size for a number of GPUs and days, by prediction");
  const auto args = std::make_shared<SizeArgs>();
  args->program = program;
  verb->add_option("--gpus", args->gpus, "GPUs of the run: whole nodes of --cluster, or a part of one");
  verb->add_option("--days", args->days, "days that the run may take");
  verb->add_option("--cluster", args->cluster,
                   "a preset, such as h100-sxm, or a file; its number of nodes is replaced");
  verb->add_option(
      "--tokens", args->training.tokens,
      "tokens to train, such as 300e9, 300B or 1.5T (k is 1000; default: 20 for each parameter)");
  verb->add_option("--global-batch", args->global_batch,
                   "sequences per step (default: 0.5 to 4 million tokens, by the size of the model)");
  verb->add_option(
      "--seq-len", args->seq_len,
      fmt::format("tokens per sequence, such as 8192 or 8k (k is 1024; default: {})", kDefaultSeqLen));
  verb->add_option("--precision", args->precision,
                   "bf16 (default; on CPUs fp32), fp16, fp32, fp64, fp8, fp8_block, mxfp8 or nvfp4; types of "
                   "states may follow: bf16:grads=bf16,moments=bf16,master=none");
  verb->add_option("--price-per-gpu-hour", args->training.price_per_gpu_hour,
                   "what the run costs, in any currency, such as 2.10, or '$2.10' in quotes (a shell "
                   "expands $2)");
  verb->add_option("--engine", args->engine,
                   fmt::format("whose speed is predicted: {}", base::ChoiceText(EngineNames())))
      ->capture_default_str();
  verb->add_option("--save", args->save, "write the model here as JSON, for --model");
  verb->add_flag("--json", args->json, "the answer as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunSize(*args); }; });
}

}  // namespace autocfg::cli
