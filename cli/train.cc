// autocfg train: runs one plan on this machine, without any service.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "cli/console.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/refused_options.h"
#include "cli/results_json.h"
#include "cli/train_report.h"
#include "cli/verbs.h"
#include "fmt/format.h"
#include "proto/convert/model_convert.h"
#include "proto/convert/plan_convert.h"
#include "proto/convert/workload_convert.h"
#include "search/cost/memory_model.h"
#include "search/schedule/program.h"
#include "search/schedule/program_size.h"
#include "search/text/plan_text.h"
#include "search/text/suggest.h"
#include "worker/inventory.h"
#include "worker/job_runner.h"
#include "worker/process_launcher.h"

namespace autocfg {
namespace {

struct TrainArgs {
  std::string model, plan, input, global_batch, seq_len, precision, data, device, init, save, seed = "1",
                                                                                              steps;
  std::string lr = "3e-4", min_lr = "0", lr_schedule = "constant", warmup_steps = "0", weight_decay = "0.1",
              beta1 = "0.9", beta2 = "0.95", adam_eps = "1e-8", clip_norm = "1.0";
  bool json = false;
  RefusedOptions refused;
};

absl::StatusOr<v1::OptimizerSpec> LoadOptimizer(const TrainArgs& args) {
  struct Real {
    const char* name;
    const std::string* text;
    double most;
    void (v1::OptimizerSpec::*set)(double);
  };
  // None beyond what a rank takes (trainer/run/train_config.cc).
  const double below_one = std::nextafter(1.0, 0.0);
  const Real reals[] = {{"--lr", &args.lr, 1e6, &v1::OptimizerSpec::set_lr},
                        {"--min-lr", &args.min_lr, 1e6, &v1::OptimizerSpec::set_min_lr},
                        {"--weight-decay", &args.weight_decay, 1e6, &v1::OptimizerSpec::set_weight_decay},
                        {"--beta1", &args.beta1, below_one, &v1::OptimizerSpec::set_beta1},
                        {"--beta2", &args.beta2, below_one, &v1::OptimizerSpec::set_beta2},
                        {"--adam-eps", &args.adam_eps, 1, &v1::OptimizerSpec::set_adam_eps},
                        {"--clip-norm", &args.clip_norm, 1e9, &v1::OptimizerSpec::set_clip_norm}};
  v1::OptimizerSpec optimizer;
  for (const auto& real : reals) {
    const auto value = ParseReal(real.name, *real.text, 0, real.most);
    if (!value.ok()) return value.status();
    (optimizer.*real.set)(*value);
  }
  if (args.lr_schedule != "constant" && args.lr_schedule != "cosine") {
    return absl::InvalidArgumentError(fmt::format("--lr-schedule: '{}' is none{}; give constant or cosine",
                                                  args.lr_schedule,
                                                  DidYouMean(args.lr_schedule, {"constant", "cosine"})));
  }
  optimizer.set_lr_schedule(args.lr_schedule);
  const auto warmup = ParseWhole("--warmup-steps", args.warmup_steps, 0, 1'000'000'000);
  if (!warmup.ok()) return warmup.status();
  optimizer.set_warmup_steps(*warmup);
  return optimizer;
}

// Model, workload and plan, from --input and from what is named beside it.
absl::StatusOr<BestPlan> LoadRun(const TrainArgs& args) {
  std::optional<BestPlan> input;
  if (!args.input.empty()) {
    const auto text = ReadTextFile(args.input);
    if (!text.ok()) return Where("--input", text.status());
    const auto parsed = ParseSearchJson(*text);
    if (!parsed.ok()) return Where(fmt::format("--input: {}", args.input), parsed.status(), "answer");
    input = *parsed;
  }
  if (!input && args.model.empty())
    return absl::InvalidArgumentError("--model is missing; give a preset or a file, or --input");
  if (!input && args.plan.empty())
    return absl::InvalidArgumentError("--plan is missing; give one such as tp=1,pp=1,dp=1,mbs=1, or --input");
  BestPlan run;
  std::int64_t seq_len = 0;
  if (!args.seq_len.empty()) {
    const auto parsed = ParseWhole("--seq-len", args.seq_len);
    if (!parsed.ok()) return parsed.status();
    seq_len = *parsed;
  }
  if (!args.model.empty()) {
    const auto model = LoadModel(args.model, seq_len);
    if (!model.ok()) return model.status();
    run.model = *model;
  } else {
    run.model = input->model;
    FillDefaults(run.model, seq_len == 0 ? input->workload.seq_len : seq_len);
    if (auto status = Validate(run.model); !status.ok())
      return Where(fmt::format("--input: {}", args.input), status);
    if (auto status = CheckEngineSupports(run.model); !status.ok())
      return Where(fmt::format("--input: {}", args.input), status);
  }
  if (!args.plan.empty()) {
    const auto plan = LoadPlan(args.plan);
    if (!plan.ok()) return plan.status();
    run.plan = *plan;
  } else {
    run.plan = input->plan;
  }
  const auto precision = LoadPrecision(
      args.precision.empty() && input ? std::string(Name(input->workload.precision)) : args.precision);
  if (!precision.ok()) return precision.status();
  run.workload.precision = *precision;
  run.workload.seq_len = seq_len != 0 ? seq_len : input ? input->workload.seq_len : run.model.max_seq_len;
  if (!args.global_batch.empty()) {
    const auto batch = ParseWhole("--global-batch", args.global_batch);
    if (!batch.ok()) return batch.status();
    run.workload.global_batch = *batch;
  } else if (input) {
    run.workload.global_batch = input->workload.global_batch;
  } else {
    run.workload.global_batch =
        std::max<std::int64_t>(1, run.plan.dp) * std::max<std::int64_t>(1, run.plan.micro_batch);
  }
  if (auto status = Validate(run.workload, run.model); !status.ok()) return status;
  return run;
}

// FailedPrecondition, with the bytes and the region, where a rank's arena is larger than its capacity.
absl::Status CheckFits(const BestPlan& run, std::int64_t capacity) {
  const MemoryBytes memory = WorstRankMemory(run.model, run.workload, run.plan);
  if (memory.Arena() <= capacity) return absl::OkStatus();
  const std::pair<const char*, std::int64_t> regions[] = {
      {"parameters", memory.parameters}, {"gradients", memory.gradients},
      {"optimizer", memory.optimizer},   {"activations", memory.activations},
      {"workspace", memory.workspace},   {"communication", memory.communication}};
  const auto largest = *std::max_element(std::begin(regions), std::end(regions),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
  return absl::FailedPreconditionError(
      fmt::format("does not fit: plan {} needs {} bytes a rank, {} bytes over the {} that a rank may use; "
                  "largest region: {} ({} bytes); "
                  "use a smaller mbs, recompute=full or more ranks",
                  PlanText(run.plan), memory.Arena(), memory.Arena() - capacity, capacity, largest.first,
                  largest.second));
}

absl::Status CheckFiles(const TrainArgs& args) {
  if (!args.data.empty()) {
    if (auto status = CheckReadable(args.data); !status.ok()) return Where("--data", status);
  }
  if (!args.init.empty()) {
    if (auto status = CheckReadable(args.init); !status.ok()) return Where("--init", status);
  }
  if (!args.save.empty()) {
    if (const auto path = ReplaceablePath(args.save); !path.ok()) return Where("--save", path.status());
  }
  return absl::OkStatus();
}

int ExitOf(const JobResult& result) {
  switch (result.outcome) {
    case JobOutcome::kDone:
      return kExitDone;
    case JobOutcome::kBadInput:
      return Fail(kExitUsage, result.message);
    case JobOutcome::kOutOfMemory: {
      std::string message = fmt::format("does not fit: {}", result.message);
      if (result.error.over_bytes() > 0) {
        message += fmt::format("; {} bytes over, largest region: {}", result.error.over_bytes(),
                               result.error.region());
      }
      return Fail(kExitNegative, message);
    }
    case JobOutcome::kCancelled:
    case JobOutcome::kTimedOut:
    case JobOutcome::kFailed:
      return Fail(kExitNegative, fmt::format("the run failed: {}", result.message));
  }
  return Fail(kExitNegative, result.message);
}

int RunTrain(const TrainArgs& args) {
  if (auto status = args.refused.Check(); !status.ok()) return Fail(status);
  const auto device = LoadDevice(args.device, /*dry=*/true);
  if (!device.ok()) return Fail(device.status());
  auto run = LoadRun(args);
  if (!run.ok()) return Fail(run.status());
  if (args.steps.empty()) return Fail(kExitUsage, "--steps is missing; say how many steps to train");
  const auto steps = ParseWhole("--steps", args.steps, 1, 100'000'000);
  if (!steps.ok()) return Fail(steps.status());
  const auto seed = ParseSeed("--seed", args.seed);
  if (!seed.ok()) return Fail(seed.status());
  const auto optimizer = LoadOptimizer(args);
  if (!optimizer.ok()) return Fail(optimizer.status());
  // A run takes the ranks that its plan asks for; LocalCluster bounds them.
  const auto plan = CheckPlan(run->model, run->workload, kMaxSize, run->plan);
  if (!plan.ok()) return Fail(plan.status());
  const std::vector<std::string> notes = Notes(run->plan);
  run->plan = *plan;
  const std::int64_t ranks = RankCount(run->plan);
  const auto cluster = LocalCluster(ranks);
  if (!cluster.ok()) return Fail(Where("--plan", cluster.status()));
  if (auto status = CheckProgramSize(run->workload, run->plan); !status.ok())
    return Fail(Where("--global-batch", status));
  if (auto status = CheckFiles(args); !status.ok()) return Fail(kExitUsage, Text(status));
  const bool dry = *device == "dry";
  if (dry && !args.save.empty())
    return Fail(kExitUsage, "--save: the dry device computes no weights; leave it out");
  const std::int64_t capacity = dry ? 0 : MemoryCapacity(*cluster);
  if (!dry) {
    if (auto status = CheckFits(*run, capacity); !status.ok()) return Fail(kExitNegative, Text(status));
  }

  for (const auto& note : notes) Note(note);
  const std::vector<int> cores = PhysicalCores();
  if (ranks > static_cast<std::int64_t>(cores.size())) {
    Note(fmt::format("{} ranks share {} core{}; times are not those of {} cores", ranks, cores.size(),
                     cores.size() == 1 ? "" : "s", ranks));
  }
  v1::Job job;
  job.set_ranks(static_cast<std::int32_t>(ranks));
  job.set_device(*device);
  v1::TrainSpec& spec = *job.mutable_train();
  *spec.mutable_model() = ToProto(run->model);
  *spec.mutable_workload() = ToProto(run->workload);
  *spec.mutable_plan() = ToProto(run->plan);
  spec.set_program_fingerprint(Fingerprint(Lower(run->model, run->workload, run->plan)));
  *spec.mutable_optimizer() = *optimizer;
  spec.set_steps(*steps);
  spec.set_seed(*seed);
  spec.set_data_path(args.data);
  spec.set_init_path(args.init);
  if (!args.save.empty()) spec.set_save_path(*ReplaceablePath(args.save));
  spec.set_memory_capacity_bytes(capacity);

  const std::string trainer = FindTrainer();
  if (access(trainer.c_str(), X_OK) != 0) {
    return Fail(
        kExitUsage,
        fmt::format(
            "{}: the training engine is missing; build autocfg-trainer beside autocfg or set AUTOCFG_TRAINER",
            trainer.empty() ? "autocfg-trainer" : trainer));
  }
  const Interrupt interrupt;
  TrainDisplay display(args.json, !dry, *steps, run->workload);
  LaunchHooks hooks;
  hooks.cancel = &interrupt.flag();
  hooks.progress = [&](int rank, const v1::Progress& progress) { display.Step(rank, progress); };
  ProcessLauncher launcher(trainer);
  const JobResult result = launcher.Run(MakeJobRequest(job, cores), hooks);
  display.End();
  if (result.outcome == JobOutcome::kCancelled && interrupt.requested()) {
    return Fail(kExitNegative, "interrupted; the ranks have ended, nothing was saved");
  }
  if (const int code = ExitOf(result); code != kExitDone) return code;
  const auto summary = SummaryOf(result, run->workload);
  if (!summary.ok()) return Fail(summary.status());
  const RunDescription description{run->model, run->workload, PlanText(run->plan), *device, ranks};
  const int code = Answer(args.json ? TrainJson(*summary, description).dump(2) + "\n"
                                    : TrainReport(*summary, description));
  if (const std::string divergence = Divergence(*summary); code == kExitDone && !divergence.empty()) {
    return Fail(kExitNegative,
                fmt::format("the run diverged at {}; use a smaller --lr, more --warmup-steps or --clip-norm",
                            divergence));
  }
  return code;
}

}  // namespace

void AddTrain(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("train", "train with one plan on this machine");
  const auto args = std::make_shared<TrainArgs>();
  verb->add_option("--model", args->model, "a preset, or a model's JSON file");
  verb->add_option("--plan", args->plan, "such as tp=2,pp=1,dp=1,mbs=4,recompute=full");
  verb->add_option("--input", args->input, "a file of search --output: its model, plan and workload");
  verb->add_option("--steps", args->steps, "steps to train");
  verb->add_option("--global-batch", args->global_batch, "sequences per step (default: dp*mbs)");
  verb->add_option("--seq-len", args->seq_len, "tokens per sequence (default: the model's max_seq_len)");
  verb->add_option("--precision", args->precision, "fp32 (default) or fp64");
  verb->add_option("--data", args->data, "tokens: .u16, .u32, else bytes (default: a seeded pattern)");
  verb->add_option("--device", args->device, "auto, cpu, or dry (counts memory, computes nothing)");
  verb->add_option("--init", args->init, "start from these weights (safetensors)");
  verb->add_option("--save", args->save, "write the weights here at the end (safetensors)");
  verb->add_option("--seed", args->seed, "of the initial weights and the pattern")->capture_default_str();
  verb->add_option("--lr", args->lr, "learning rate")->capture_default_str();
  verb->add_option("--min-lr", args->min_lr, "where the cosine ends")->capture_default_str();
  verb->add_option("--lr-schedule", args->lr_schedule, "constant or cosine")->capture_default_str();
  verb->add_option("--warmup-steps", args->warmup_steps, "steps over which the rate rises")
      ->capture_default_str();
  verb->add_option("--weight-decay", args->weight_decay, "AdamW's decay")->capture_default_str();
  verb->add_option("--beta1", args->beta1, "AdamW's")->capture_default_str();
  verb->add_option("--beta2", args->beta2, "AdamW's")->capture_default_str();
  verb->add_option("--adam-eps", args->adam_eps, "AdamW's")->capture_default_str();
  verb->add_option("--clip-norm", args->clip_norm, "bound of the gradient norm; 0 = none")
      ->capture_default_str();
  verb->add_flag("--json", args->json, "the result as JSON");
  args->refused.AddValue(verb, "--trace", "leave it out");
  args->refused.AddValue(verb, "--slice", "leave it out");
  verb->callback([args, &chosen] { chosen = [args] { return RunTrain(*args); }; });
}

}  // namespace autocfg
