// autocfg train: runs one plan on this machine, without any service.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "cli/console.h"
#include "cli/devices.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/plan_question.h"
#include "cli/results_json.h"
#include "cli/train_job.h"
#include "cli/train_report.h"
#include "cli/verbs.h"
#include "fmt/format.h"
#include "proto/convert/op_convert.h"
#include "proto/convert/trace_convert.h"
#include "search/cost/cluster_op_times.h"
#include "search/cost/cost_model.h"
#include "search/cost/memory_model.h"
#include "search/cost/plan_op_times.h"
#include "search/cost/split.h"
#include "search/planner/nominal_times.h"
#include "search/schedule/program.h"
#include "search/schedule/program_size.h"
#include "search/text/chrome_trace.h"
#include "search/text/plan_text.h"
#include "search/text/prediction_json.h"
#include "search/text/typical_figures.h"
#include "worker/gpu_health.h"
#include "worker/inventory.h"
#include "worker/job_runner.h"
#include "worker/process_launcher.h"

namespace autocfg {
namespace {

struct TrainArgs {
  std::string model, plan, input, global_batch, seq_len, precision, data, device, cluster, init, save, trace,
      slice;
  std::string seed = "1", steps;
  std::string lr = "3e-4", min_lr = "0", lr_schedule = "constant", warmup_steps = "0", weight_decay = "0.1",
              beta1 = "0.9", beta2 = "0.95", adam_eps = "1e-8", clip_norm = "1.0";
  bool json = false;
};

// A run, checked.
struct TrainRun {
  BestPlan what;
  std::string device;
  GpuList machine;                      // on device cuda: what it runs on
  std::optional<ClusterSpec> emulated;  // on the paced device: what it stands for
  std::optional<v1::Slice> slice;
  std::vector<std::string> notes;  // to be said once all is checked
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
    return absl::InvalidArgumentError(
        fmt::format("--lr-schedule: '{}' is none; give constant or cosine", args.lr_schedule));
  }
  optimizer.set_lr_schedule(args.lr_schedule);
  const auto warmup = ParseWhole("--warmup-steps", args.warmup_steps, 0, 1'000'000'000);
  if (!warmup.ok()) return warmup.status();
  optimizer.set_warmup_steps(*warmup);
  return optimizer;
}

// The preset of this many GPUs at least that an emulated run takes where none is named.
std::string DefaultEmulated(const ParallelPlan& plan) {
  constexpr double kMostNodes = 1e6;
  const double ranks =
      static_cast<double>(plan.tp) * static_cast<double>(plan.pp) * static_cast<double>(plan.dp);
  const double nodes = std::clamp(std::ceil(ranks / 8), 1.0, kMostNodes);
  return fmt::format("a100-80gb-sxm:{:.0f}x8", nodes);
}

// What the paced device stands for; empty on any other device.
absl::StatusOr<std::optional<ClusterSpec>> LoadEmulated(const TrainArgs& args,
                                                        const std::optional<BestPlan>& input,
                                                        const ParallelPlan& plan,
                                                        std::vector<std::string>& notes) {
  if (args.device != "paced") {
    if (args.cluster.empty()) return std::nullopt;
    return absl::InvalidArgumentError(
        "--cluster: only --device paced takes one, which it emulates; leave it out");
  }
  if (args.cluster.empty() && input && input->cluster) return input->cluster;
  const std::string name = args.cluster.empty() ? DefaultEmulated(plan) : args.cluster;
  auto cluster = LoadDescribedCluster(name);
  if (!cluster.ok()) return cluster.status();
  if (args.cluster.empty()) notes.push_back(fmt::format("no --cluster is named; emulating {}", name));
  if (std::string note = AssumeTypicalFigures(*cluster); !note.empty()) notes.push_back(std::move(note));
  return *std::move(cluster);
}

absl::StatusOr<std::optional<v1::Slice>> LoadSlice(const std::string& text, const ParallelPlan& plan) {
  if (text.empty()) return std::nullopt;
  const auto comma = text.find(',');
  if (comma == std::string::npos || text.find(',', comma + 1) != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("--slice: '{}' is not T,P, a tensor and a pipeline coordinate such as 0,0", text));
  }
  const auto tensor = ParseWhole("--slice: tensor coordinate", text.substr(0, comma), 0, plan.tp - 1);
  if (!tensor.ok()) return tensor.status();
  const auto pipeline = ParseWhole("--slice: pipeline coordinate", text.substr(comma + 1), 0, plan.pp - 1);
  if (!pipeline.ok()) return pipeline.status();
  v1::Slice slice;
  slice.set_tensor(*tensor);
  slice.set_pipeline(*pipeline);
  return slice;
}

// The precision that is named, else that of --input, else what the device does by itself.
absl::StatusOr<Precision> LoadRunPrecision(const TrainArgs& args, const std::optional<BestPlan>& input,
                                           TrainRun& run) {
  const bool of_input = args.precision.empty() && input;
  const std::string name = of_input ? std::string(Name(input->workload.precision)) : args.precision;
  if (run.emulated) {
    if (name.empty()) {
      if (std::string note = PrecisionNote(*run.emulated); !note.empty())
        run.notes.push_back(std::move(note));
    }
    return LoadPredictedPrecision(name, *run.emulated);
  }
  if (run.device == "dry") return LoadPlannedPrecision(name);
  if (run.device == "cuda") {
    auto precision = LoadGpuPrecision(name);
    if (!of_input || precision.ok()) return precision;
    return Where(fmt::format("--input: {}", args.input), precision.status());
  }
  auto precision = LoadPrecision(name);
  if (of_input && absl::IsUnimplemented(precision.status())) {
    return absl::UnimplementedError(
        fmt::format("--input: {}: its workload is {}, which on the CPU is not supported yet; give --device "
                    "paced (every op takes its modelled "
                    "time) or dry (counts memory), or --precision fp32",
                    args.input, name));
  }
  return precision;
}

// Model, workload and plan, from --input and from what is named beside it; the plan as it was given.
absl::StatusOr<TrainRun> LoadRun(const TrainArgs& args) {
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
  TrainRun loaded;
  BestPlan& run = loaded.what;
  std::int64_t seq_len = 0;
  if (!args.seq_len.empty()) {
    const auto parsed = ParseWhole("--seq-len", args.seq_len, 1, kMaxSeqLen);
    if (!parsed.ok()) return parsed.status();
    seq_len = *parsed;
  }
  if (!args.model.empty()) {
    const auto model = LoadModel(args.model, seq_len);
    if (!model.ok()) return model.status();
    run.model = *model;
    if (auto status = CheckEngineSupports(run.model); !status.ok())
      return Where(fmt::format("--model: {}", args.model), status, "model");
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
  const auto asked = LoadDevice(args.device, /*dry=*/true);
  if (!asked.ok()) return asked.status();
  auto device = ChooseDevice(
      *asked, args.precision.empty() && input ? Name(input->workload.precision) : args.precision);
  if (!device.ok()) return device.status();
  loaded.device = device->name;
  loaded.machine = std::move(device->machine);
  loaded.notes = std::move(device->notes);
  auto emulated = LoadEmulated(args, input, run.plan, loaded.notes);
  if (!emulated.ok()) return emulated.status();
  loaded.emulated = *std::move(emulated);
  const auto precision = LoadRunPrecision(args, input, loaded);
  if (!precision.ok()) return precision.status();
  run.workload.precision = *precision;
  run.workload.seq_len = seq_len != 0 ? seq_len : input ? input->workload.seq_len : run.model.max_seq_len;
  if (!args.global_batch.empty()) {
    const auto batch = ParseWhole("--global-batch", args.global_batch, 1, kMaxGlobalBatch);
    if (!batch.ok()) return batch.status();
    run.workload.global_batch = *batch;
  } else if (input) {
    run.workload.global_batch = input->workload.global_batch;
  } else {
    run.workload.global_batch =
        std::max<std::int64_t>(1, run.plan.dp) * std::max<std::int64_t>(1, run.plan.micro_batch);
  }
  if (auto status = Validate(run.workload, run.model); !status.ok()) return status;
  return loaded;
}

// The plan as the ranks run it: legal, canonical, its split made definite by the op times of what runs it.
absl::Status ResolvePlan(TrainRun& run, const OpTimeModel& times) {
  auto& [model, workload, plan, input_cluster] = run.what;
  const std::int64_t ranks = run.emulated ? RankCount(*run.emulated) : kMaxSize;
  const auto checked = CheckPlan(model, workload, ranks, plan);
  if (!checked.ok()) return checked.status();
  const bool automatic = checked->split == SplitMode::kAuto;
  for (const auto& note : Notes(plan)) run.notes.push_back(note);
  CostModel costs(model, workload, run.emulated.value_or(ClusterSpec{}),
                  std::shared_ptr<const OpTimeModel>(&times, [](const auto*) {}));
  plan = ResolveSplit(costs, *checked);
  if (automatic) run.notes.push_back(fmt::format("split=auto is {}", SplitText(plan)));
  return absl::OkStatus();
}

// FailedPrecondition, with the bytes and the region, where a rank's arena is larger than its capacity.
absl::Status CheckFits(const TrainRun& train, std::int64_t capacity) {
  const BestPlan& run = train.what;
  const MemoryBytes memory = train.slice
                                 ? RankMemory(run.model, run.workload, run.plan, train.slice->pipeline())
                                 : WorstRankMemory(run.model, run.workload, run.plan);
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

// What makes no sense together.
absl::Status CheckTogether(const TrainArgs& args, const TrainRun& run) {
  if (run.device != "cpu" && run.device != "cuda" && !args.save.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--save: the {} device computes no weights; leave it out", run.device));
  }
  if (run.slice && !args.save.empty())
    return absl::InvalidArgumentError("--save: a slice has the weights of one rank alone; leave it out");
  if (run.device == "dry" && !args.trace.empty())
    return absl::InvalidArgumentError(
        "--trace: the dry device takes no time; leave it out, or give --device paced");
  return absl::OkStatus();
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
  if (!args.trace.empty()) {
    if (auto status = CheckWritable(args.trace); !status.ok()) return Where("--trace", status);
    std::error_code ignored;
    const auto place = [&](const std::string& file) {
      return std::filesystem::weakly_canonical(std::filesystem::absolute(file, ignored), ignored);
    };
    if (!args.save.empty() && place(args.trace) == place(args.save)) {
      return absl::InvalidArgumentError(fmt::format(
          "--trace: {} is the file of --save too, which would be overwritten; give another", args.trace));
    }
  }
  return absl::OkStatus();
}

int ExitOf(const JobResult& result) {
  switch (result.outcome) {
    case JobOutcome::kDone: return kExitDone;
    case JobOutcome::kBadInput: return Fail(kExitUsage, result.message);
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
    case JobOutcome::kFailed: return Fail(kExitNegative, fmt::format("the run failed: {}", result.message));
  }
  return Fail(kExitNegative, result.message);
}

// The rows of all ranks as a Chrome trace.
absl::Status WriteTrace(const std::string& file, const TrainRun& run, const JobResult& result) {
  std::vector<TraceRow> rows;
  for (const RankOutcome& rank : result.ranks) {
    for (const auto& message : rank.last.train_result().trace()) {
      auto row = FromProto(message);
      if (!row.ok()) return row.status();
      rows.push_back(*row);
    }
  }
  const Program program = Lower(run.what.model, run.what.workload, run.what.plan);
  TraceOrigin origin{.kind = run.emulated ? TraceKind::kEmulated : TraceKind::kMeasured,
                     .device = run.device,
                     .cluster = "",
                     .slice = std::nullopt};
  if (run.emulated) origin.cluster = run.emulated->name;
  if (run.slice) origin.slice = {run.slice->tensor(), run.slice->pipeline()};
  return WriteFileAtomically(file, ChromeTrace(program, rows, origin));
}

// Bytes that a rank may use, its device's own among them; 0 = as many as it likes.
struct Capacity {
  std::int64_t bytes = 0;
  std::int64_t overhead_bytes = 0;  // of the device itself, as far as it is known before the run
};

absl::StatusOr<Capacity> CapacityOf(const TrainRun& run) {
  const std::int64_t processes = run.slice ? 1 : RankCount(run.what.plan);
  const auto here = LocalCluster(processes, run.machine);
  if (!here.ok()) return Where("--plan", here.status());
  if (run.device == "dry") return Capacity{};
  if (!run.emulated) return Capacity{MemoryCapacity(*here), here->groups.front().device.overhead_bytes};
  // What is emulated has no overhead of its own.
  return Capacity{MemoryCapacity(*run.emulated) - run.emulated->groups.front().device.overhead_bytes, 0};
}

// On what this machine makes of the run.
void AddLoadNotes(TrainRun& run, std::int64_t ranks, std::size_t cores) {
  if (run.device == "cpu" && ranks > static_cast<std::int64_t>(cores)) {
    run.notes.push_back(fmt::format("{} ranks share {} core{}; times are not those of {} cores", ranks, cores,
                                    cores == 1 ? "" : "s", ranks));
  }
  if (run.device != "cuda") return;
  if (std::string note = SharedGpusNote(ranks, run.machine); !note.empty())
    run.notes.push_back(std::move(note));
  std::vector<std::string> used = UuidsOf(run.machine);
  used.resize(std::min(used.size(), static_cast<std::size_t>(ranks)));
  const std::chrono::seconds now{0};
  if (const std::string shortage = WaitForFreeGpus(used, now, nullptr); !shortage.empty())
    run.notes.push_back(shortage + "; times are not those of a free GPU");
}

absl::StatusOr<std::shared_ptr<const OpTimeModel>> OpTimesOf(const TrainRun& run) {
  if (!run.emulated) return std::make_shared<const NominalTimes>();
  auto times = ClusterOpTimes::Create(*run.emulated, run.what.workload.precision);
  if (!times.ok()) return OfOption(times.status());
  return *std::move(times);
}

int RunTrain(const TrainArgs& args) {
  auto loaded = LoadRun(args);
  if (!loaded.ok()) return Fail(loaded.status());
  TrainRun& run = *loaded;
  if (args.steps.empty()) return Fail(kExitUsage, "--steps is missing; say how many steps to train");
  const auto steps = ParseWhole("--steps", args.steps, 1, 100'000'000);
  if (!steps.ok()) return Fail(steps.status());
  const auto seed = ParseSeed("--seed", args.seed);
  if (!seed.ok()) return Fail(seed.status());
  const auto optimizer = LoadOptimizer(args);
  if (!optimizer.ok()) return Fail(optimizer.status());
  const auto times = OpTimesOf(run);
  if (!times.ok()) return Fail(times.status());
  if (auto status = ResolvePlan(run, **times); !status.ok()) return Fail(status);
  const auto slice = LoadSlice(args.slice, run.what.plan);
  if (!slice.ok()) return Fail(slice.status());
  run.slice = *slice;
  const auto capacity = CapacityOf(run);
  if (!capacity.ok()) return Fail(capacity.status());
  if (auto status = CheckProgramSize(run.what.workload, run.what.plan); !status.ok())
    return Fail(Where("--global-batch", status));
  if (auto status = CheckTogether(args, run); !status.ok()) return Fail(status);
  if (auto status = CheckFiles(args); !status.ok()) return Fail(kExitUsage, Text(status));
  if (run.device != "dry") {
    if (auto status = CheckFits(run, capacity->bytes - capacity->overhead_bytes); !status.ok())
      return Fail(kExitNegative, Text(status));
  }

  v1::Job job = MakeTrainJob(run.what.model, run.what.workload, run.what.plan, run.device);
  if (run.slice) job.set_ranks(1);
  const std::vector<int> cores = PhysicalCores();
  AddLoadNotes(run, job.ranks(), cores.size());
  v1::TrainSpec& spec = *job.mutable_train();
  *spec.mutable_optimizer() = *optimizer;
  spec.set_steps(*steps);
  spec.set_seed(*seed);
  spec.set_data_path(args.data);
  spec.set_init_path(args.init);
  if (!args.save.empty()) spec.set_save_path(*ReplaceablePath(args.save));
  spec.set_memory_capacity_bytes(capacity->bytes);
  spec.set_trace(!args.trace.empty());
  if (run.slice) *spec.mutable_slice() = *run.slice;
  if (run.emulated) {
    for (const OpTime& time : PlanOpTimes(run.what.model, run.what.workload, run.what.plan, **times)) {
      *spec.add_op_times() = ToProto(time);
    }
  }

  const std::string trainer = FindTrainer();
  if (access(trainer.c_str(), X_OK) != 0) {
    return Fail(
        kExitUsage,
        fmt::format(
            "{}: the training engine is missing; build autocfg-trainer beside autocfg or set AUTOCFG_TRAINER",
            trainer.empty() ? "autocfg-trainer" : trainer));
  }
  const Interrupt interrupt;
  TrainDisplay display(args.json, (run.device == "cpu" || run.device == "cuda") && !run.slice, *steps,
                       run.what.workload);
  LaunchHooks hooks;
  hooks.cancel = &interrupt.flag();
  // Once the ranks run: what they refuse at their start is one line of error, alone.
  const auto say_notes = [&run] {
    for (const auto& note : std::exchange(run.notes, {})) Note(note);
  };
  hooks.progress = [&](int rank, const v1::Progress& progress) {
    say_notes();
    display.Step(rank, progress);
  };
  ProcessLauncher launcher(trainer);
  const JobResult result = launcher.Run(MakeJobRequest(job, cores, UuidsOf(run.machine)), hooks);
  display.End();
  if (result.outcome == JobOutcome::kCancelled && interrupt.requested()) {
    return Fail(kExitNegative, "interrupted; the ranks have ended, nothing was saved");
  }
  if (const int code = ExitOf(result); code != kExitDone) return code;
  say_notes();
  auto summary = SummaryOf(result, run.what.workload);
  if (!summary.ok()) return Fail(summary.status());
  if (run.slice) summary->tokens_per_s = std::nullopt;  // one rank's time is not the step's
  RunDescription description{run.what.model, run.what.workload, PlanText(run.what.plan), run.device,
                             RankCount(run.what.plan)};
  description.slice = run.slice;
  if (run.emulated) description.emulated = run.emulated->name.empty() ? "unnamed" : run.emulated->name;
  if (!args.trace.empty()) {
    if (auto status = WriteTrace(args.trace, run, result); !status.ok())
      return Fail(kExitNegative, fmt::format("--trace: {}", Text(status)));
  }
  const int code = Answer(args.json ? TrainJson(*summary, description).dump(2) + "\n"
                                    : TrainReport(*summary, description));
  if (const std::string divergence = Divergence(*summary);
      code == kExitDone && !run.slice && !divergence.empty()) {
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
  verb->add_option("--precision", args->precision,
                   "on the CPU fp32 (default) or fp64; on GPUs bf16 (default) or fp32; with --device dry any "
                   "of four, with paced bf16 by default");
  verb->add_option("--data", args->data, "tokens: .u16, .u32, else bytes (default: a seeded pattern)");
  verb->add_option("--device", args->device,
                   "auto (a GPU where one can be used, else the CPU), cpu, cuda, dry (counts memory, "
                   "computes nothing), or paced (every op takes its modelled time)");
  verb->add_option("--cluster", args->cluster,
                   "what --device paced emulates: a preset with its size, or a file");
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
  verb->add_option("--trace", args->trace,
                   "write what every rank did in the last step here (Chrome trace, for Perfetto)");
  verb->add_option("--slice", args->slice,
                   "T,P: run the rank at these tensor and pipeline coordinates alone, without its peers");
  verb->callback([args, &chosen] { chosen = [args] { return RunTrain(*args); }; });
}

}  // namespace autocfg
