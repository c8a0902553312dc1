#include "cli/train/train_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "cli/input/devices.h"
#include "cli/input/files.h"
#include "cli/input/inputs.h"
#include "cli/input/option_values.h"
#include "cli/question/memory_advice.h"
#include "cli/question/plan_question.h"
#include "cli/report/trace_file.h"
#include "cli/terminal/console.h"
#include "cli/train/checkpoint_run.h"
#include "cli/train/step_log.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/convert/spec_convert.h"
#include "search/cost/cost_model.h"
#include "search/cost/memory/memory_model.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/cost/split.h"
#include "search/plan/plan_text.h"
#include "search/question/defaults.h"
#include "search/schedule/program.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

// Returns the default cluster of an emulated run: the smallest a100-80gb-sxm preset with enough GPUs.
std::string DefaultEmulated(const ParallelPlan& plan) {
  constexpr std::int64_t kGpus = 8, kMostNodes = 1'000'000;
  std::int64_t nodes = 1;
  if (HasPositiveSizes(plan))
    nodes = HasMoreRanks(plan, kMostNodes * kGpus) ? kMostNodes : (RankCount(plan) + kGpus - 1) / kGpus;
  return fmt::format("a100-80gb-sxm:{}x{}", nodes, kGpus);
}

// Returns the cluster that the paced device emulates; empty for any other device.
absl::StatusOr<std::optional<ClusterSpec>> LoadEmulated(const TrainArgs& args, EngineDevice device,
                                                        const std::optional<BestPlan>& input,
                                                        const ParallelPlan& plan,
                                                        std::vector<std::string>& notes) {
  if (!IsEmulated(device)) {
    if (args.cluster.empty()) return std::nullopt;
    return absl::InvalidArgumentError("--cluster: only --device paced uses it; leave it out");
  }
  if (args.cluster.empty() && input && input->cluster) return input->cluster;
  const std::string name = args.cluster.empty() ? DefaultEmulated(plan) : args.cluster;
  AUTOCFG_ASSIGN_OR_RETURN(auto cluster, LoadDescribedCluster(name));
  if (args.cluster.empty()) notes.push_back(fmt::format("no --cluster is given; emulating {}", name));
  return cluster;
}

absl::StatusOr<std::optional<v1::Slice>> LoadSlice(const std::string& text, const ParallelPlan& plan) {
  if (text.empty()) return std::nullopt;
  const auto comma = text.find(',');
  if (comma == std::string::npos || text.find(',', comma + 1) != std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "--slice: invalid value '{}'; expected T,P, a tensor and a pipeline coordinate such as 0,0",
        base::Printable(text)));
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto tensor, ParseWhole("--slice: tensor coordinate", text.substr(0, comma),
                                                         0, SizeOf(plan, Axis::kTensor) - 1));
  AUTOCFG_ASSIGN_OR_RETURN(const auto pipeline,
                           ParseWhole("--slice: pipeline coordinate", text.substr(comma + 1), 0,
                                      SizeOf(plan, Axis::kPipeline) - 1));
  v1::Slice slice;
  slice.set_tensor(tensor);
  slice.set_pipeline(pipeline);
  return slice;
}

// Returns the precision given, else that of --input, else the device's default.
absl::StatusOr<Precision> LoadRunPrecision(const TrainArgs& args, const std::optional<BestPlan>& input,
                                           TrainRun& run) {
  const bool of_input = args.precision.empty() && input;
  const std::string name = of_input ? PrecisionText(input->workload.precision) : args.precision;
  switch (run.device) {
    case EngineDevice::kPaced: {
      auto precision = ResolveDefaults("", name, DeviceTimes::kPredicted, *run.emulated, run.notes);
      if (!precision.ok()) return OfOption(precision.status());
      return precision;
    }
    case EngineDevice::kDry: return LoadPlannedPrecision(name);
    case EngineDevice::kCuda: {
      auto precision = LoadGpuPrecision(name);
      if (!of_input || precision.ok()) return precision;
      return Where(fmt::format("--input: {}", args.input), precision.status());
    }
    case EngineDevice::kCpu: break;
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

// Loads model, workload and plan from --input and the options. The plan is returned as given.
absl::StatusOr<TrainRun> LoadRun(const TrainArgs& args) {
  std::optional<BestPlan> input;
  if (!args.input.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(auto file, LoadAnswerFile(args.input));
    input = std::move(file.best);
  } else if (!args.resume.empty() && (args.model.empty() || args.plan.empty())) {
    const auto stored = RunOfCheckpoint(args.resume);
    if (!stored.ok()) return Where("--resume", stored.status());
    input = *stored;
  }
  const std::string source =
      args.input.empty() ? fmt::format("--resume: {}", args.resume) : fmt::format("--input: {}", args.input);
  if (!input && args.model.empty())
    return absl::InvalidArgumentError("--model is missing; give a preset or a file, or --input");
  if (!input && args.plan.empty())
    return absl::InvalidArgumentError("--plan is missing; give one such as tp=1,pp=1,dp=1,mbs=1, or --input");
  TrainRun loaded;
  if (args.input.empty() && input) {
    loaded.notes.push_back(
        args.plan.empty()
            ? fmt::format("{} of the checkpoint: {}", args.model.empty() ? "model and plan" : "plan",
                          PlanText(input->plan))
            : fmt::format("model of the checkpoint, which was trained as {}; the plan is --plan",
                          PlanText(input->plan)));
  }
  BestPlan& run = loaded.what;
  AUTOCFG_ASSIGN_OR_RETURN(const std::int64_t seq_len, LoadSeqLen(args.seq_len));
  AddUnitNote("--seq-len", base::Quantity::kSequenceLength, args.seq_len, loaded.notes);
  std::vector<std::string> of_model;  // notes
  if (!args.model.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(run.model, LoadModel(args.model, seq_len, of_model));
    if (auto status = CheckEngineSupports(run.model); !status.ok())
      return Where(fmt::format("--model: {}", args.model), status, "model");
  } else {
    run.model = input->model;
    FillDefaults(run.model, seq_len == 0 ? input->workload.seq_len : seq_len);
    if (auto status = Validate(run.model); !status.ok()) return Where(source, status);
    if (auto status = CheckEngineSupports(run.model); !status.ok()) return Where(source, status);
  }
  if (!args.plan.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(run.plan, LoadPlan(args.plan));
  } else {
    run.plan = input->plan;
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto asked, LoadDevice(args.device, /*dry=*/true));
  AUTOCFG_ASSIGN_OR_RETURN(auto device, ChooseDevice(asked, args.precision.empty() && input
                                                                ? PrecisionText(input->workload.precision)
                                                                : args.precision));
  loaded.device = device.engine;
  loaded.machine = std::move(device.machine);
  for (std::string& note : of_model) loaded.notes.push_back(std::move(note));
  std::move(device.notes.begin(), device.notes.end(), std::back_inserter(loaded.notes));
  AUTOCFG_ASSIGN_OR_RETURN(loaded.emulated, LoadEmulated(args, loaded.device, input, run.plan, loaded.notes));
  AUTOCFG_ASSIGN_OR_RETURN(run.workload.precision, LoadRunPrecision(args, input, loaded));
  if (input) run.workload.optimizer = input->workload.optimizer;
  AUTOCFG_RETURN_IF_ERROR(ApplyOptimizer(args.choice, run.workload));
  AUTOCFG_RETURN_IF_ERROR(base::WithSubject("--precision", CheckEngineRuns(run.workload.precision)));
  AUTOCFG_RETURN_IF_ERROR(base::WithSubject("--optimizer", CheckEngineRuns(run.workload.optimizer)));
  run.workload.seq_len = seq_len != 0 ? seq_len : input ? input->workload.seq_len : run.model.max_seq_len;
  if (!args.global_batch.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(run.workload.global_batch,
                             ParseWhole("--global-batch", args.global_batch, 1, kMaxGlobalBatch));
  } else if (input) {
    run.workload.global_batch = input->workload.global_batch;
  } else {
    run.workload.global_batch =
        std::max<std::int64_t>(1, BatchRanks(run.plan)) * std::max<std::int64_t>(1, run.plan.micro_batch);
  }
  AUTOCFG_RETURN_IF_ERROR(Validate(run.workload, run.model));
  return loaded;
}

// Resolves the plan to what the ranks run: legal, canonical, and with a definite split, chosen by the
// device's op times.
absl::Status ResolvePlan(TrainRun& run) {
  const ModelSpec& model = run.what.model;
  const Workload& workload = run.what.workload;
  ParallelPlan& plan = run.what.plan;
  const std::int64_t ranks = run.emulated ? RankCount(*run.emulated) : kMaxSize;
  AUTOCFG_ASSIGN_OR_RETURN(const auto checked, CheckPlan({model, workload, plan}, ranks));
  const bool automatic = checked.split == SplitMode::kAuto;
  for (const auto& note : Notes(plan)) run.notes.push_back(note);
  CostModel costs({model, workload, run.emulated.value_or(ClusterSpec{})}, run.times);
  plan = ResolveToFaster(costs, checked, [&](const ParallelPlan& of_stages) {
    return CheckProgramSize(workload, of_stages).ok() ? costs.Predict(of_stages) : costs.Estimate(of_stages);
  });
  if (automatic) run.notes.push_back(fmt::format("split=auto is {}", SplitText(plan)));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const OpTimeModel>> OpTimesOf(const TrainRun& run) {
  if (!run.emulated) return std::make_shared<const NominalTimes>();
  auto times = ClusterOpTimes::Create(*run.emulated, run.what.workload.precision);
  if (!times.ok()) return OfOption(times.status());
  return *std::move(times);
}

absl::StatusOr<Capacity> CapacityOf(const TrainRun& run) {
  const std::int64_t processes = run.slice ? 1 : RankCount(run.what.plan);
  const auto here = worker::LocalCluster(processes, run.machine);
  if (!here.ok()) return Where("--plan", here.status());
  if (IsDry(run.device)) return Capacity{};
  if (!run.emulated) return Capacity{MemoryCapacity(*here), DeviceOverheadBytes(*here)};
  // An emulated device has no overhead of its own.
  return Capacity{MemoryCapacity(*run.emulated) - DeviceOverheadBytes(*run.emulated), 0};
}

// Returns the files that --data names: itself, or both of a Megatron pair whose prefix it is.
std::vector<std::string> DataFiles(const std::string& data) {
  std::error_code ignored;
  if (std::filesystem::exists(data, ignored) || !std::filesystem::exists(data + ".bin", ignored))
    return {data};
  return {data + ".bin", data + ".idx"};
}

// Fails if a file that the run writes is one that it reads. --save may be --init: a run that diverges leaves
// the file as it was.
absl::Status CheckInputsStay(const TrainArgs& args) {
  std::vector<FileOfOption> read = {
      {"--input", args.input}, {"--model", args.model}, {"--cluster", args.cluster}};
  if (!args.data.empty()) {
    for (std::string& file : DataFiles(args.data)) read.push_back({"--data", std::move(file)});
  }
  AUTOCFG_RETURN_IF_ERROR(CheckOtherFile({"--save", args.save}, read));
  read.push_back({"--init", args.init});
  for (const FileOfOption& written :
       {FileOfOption{"--log", args.log},
        FileOfOption{"--trace", args.trace == kTraceToOutput ? "" : args.trace}}) {
    AUTOCFG_RETURN_IF_ERROR(CheckOtherFile(written, read));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainRun> LoadTrainRun(const TrainArgs& args) {
  auto loaded = LoadRun(args);
  if (!loaded.ok()) return loaded.status();
  TrainRun& run = *loaded;
  if (args.steps.empty())
    return absl::InvalidArgumentError("--steps is missing; give the number of steps to train");
  AUTOCFG_ASSIGN_OR_RETURN(run.steps, ParseWhole("--steps", args.steps, 1, 100'000'000));
  if (!args.save_every.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(run.save_every, ParseWhole("--save-every", args.save_every, 1, 100'000'000));
  }
  if (!args.trace_steps.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(run.trace_steps, ParseWhole("--trace-steps", args.trace_steps, 1, run.steps));
  }
  if (!args.log.empty()) {
    AUTOCFG_RETURN_IF_ERROR(StepLog::CheckName(args.log));
  }
  AUTOCFG_ASSIGN_OR_RETURN(run.seed, ParseSeed("--seed", args.seed));
  AUTOCFG_ASSIGN_OR_RETURN(run.optimizer, LoadOptimizer(args.optimizer));
  if (std::string note = UnusedNote(run.optimizer); !note.empty()) run.notes.push_back(std::move(note));
  if (std::string note = WarmupNote(run.optimizer, run.steps); !note.empty())
    run.notes.push_back(std::move(note));
  AUTOCFG_ASSIGN_OR_RETURN(run.times, OpTimesOf(run));
  AUTOCFG_RETURN_IF_ERROR(ResolvePlan(run));
  AUTOCFG_ASSIGN_OR_RETURN(run.slice, LoadSlice(args.slice, run.what.plan));
  AUTOCFG_ASSIGN_OR_RETURN(run.trace_ranks, LoadTraceRanks(args.trace_ranks, RankCount(run.what.plan)));
  AUTOCFG_ASSIGN_OR_RETURN(run.capacity, CapacityOf(run));
  if (auto status = CheckProgramSize(run.what.workload, run.what.plan); !status.ok())
    return Where("--global-batch", status);
  return loaded;
}

absl::Status CheckTogether(const TrainArgs& args, const TrainRun& run) {
  const std::pair<const char*, const std::string&> of_weights[] = {
      {"--save", args.save}, {"--checkpoint", args.checkpoint}, {"--resume", args.resume}};
  for (const auto& [option, path] : of_weights) {
    if (path.empty()) continue;
    if (!Computes(run.device)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the {} device computes no weights; leave it out", option, Name(run.device)));
    }
    if (run.slice) {
      return absl::InvalidArgumentError(
          fmt::format("{}: a slice has the weights of one rank alone; leave it out", option));
    }
  }
  if (run.save_every != 0 && args.checkpoint.empty())
    return absl::InvalidArgumentError("--save-every: no directory is given; give --checkpoint DIR too");
  if (!args.resume.empty() && !args.init.empty())
    return absl::InvalidArgumentError(
        "--init: a resumed run has the weights of its checkpoint; leave out --init or --resume");
  for (const auto& [option, given] :
       {std::pair<const char*, bool>{"--trace-steps", !args.trace_steps.empty()},
        {"--trace-ranks", !args.trace_ranks.empty()}}) {
    if (given && args.trace.empty())
      return absl::InvalidArgumentError(
          fmt::format("{}: no trace is asked for; give --trace FILE too", option));
  }
  if (run.trace_ranks && run.slice) {
    return absl::InvalidArgumentError(
        "--trace-ranks: a slice is the only rank that runs; leave out --trace-ranks or --slice");
  }
  if (args.trace == kTraceToOutput && args.json) {
    return absl::InvalidArgumentError(
        "--trace: - is standard output, which --json takes; give --trace a file, or leave out --json");
  }
  if (IsDry(run.device) && !args.log.empty())
    return absl::InvalidArgumentError("--log: the dry device takes no steps; leave it out");
  if (IsDry(run.device) && !args.trace.empty())
    return absl::InvalidArgumentError(
        "--trace: the dry device takes no time; leave it out, or give --device paced");
  return absl::OkStatus();
}

absl::Status CheckFiles(const TrainArgs& args, const TrainRun& run) {
  for (const auto& [option, path] : {std::pair{"--init", &args.init}, std::pair{"--save", &args.save}}) {
    if (path->empty()) continue;
    if (auto status = CheckStoredWeights(args.model); !status.ok()) return Where(option, status);
  }
  if (!args.data.empty()) {
    for (const std::string& file : DataFiles(args.data)) {
      if (auto status = CheckReadable(file); !status.ok()) return Where("--data", status);
    }
  }
  if (!args.init.empty()) {
    if (auto status = CheckReadable(args.init); !status.ok()) return Where("--init", status);
  }
  if (!args.save.empty()) {
    if (const auto path = ReplaceablePath(args.save); !path.ok()) return Where("--save", path.status());
  }
  if (!args.checkpoint.empty()) {
    if (auto status = CheckWritableDirectory(args.checkpoint); !status.ok())
      return Where("--checkpoint", status);
  }
  if (!args.resume.empty()) {
    if (auto status = CheckReadableDirectory(args.resume); !status.ok()) return Where("--resume", status);
    auto model = FromProto(ToProto(run.what.model));  // as a rank reads it
    if (!model.ok()) return Where("--model", model.status(), "model");
    FillDefaults(*model, run.what.workload.seq_len);
    const ResumingRun resuming = {.model = ToProto(*model),
                                  .workload = ToProto(run.what.workload),
                                  .optimizer = run.optimizer,
                                  .seed = run.seed,
                                  .steps = run.steps};
    AUTOCFG_RETURN_IF_ERROR(CheckResumes(args.resume, resuming));
  }
  const std::pair<const char*, const std::string&> written[] = {{"--trace", args.trace}, {"--log", args.log}};
  for (const auto& [option, file] : written) {
    if (file.empty() || (&file == &args.trace && file == kTraceToOutput)) continue;
    if (auto status = CheckWritable(file); !status.ok()) return Where(option, status);
    AUTOCFG_RETURN_IF_ERROR(CheckBothWritten({option, file}, {"--save", args.save}));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckBothWritten({"--log", args.log}, {"--trace", args.trace}));
  return CheckInputsStay(args);
}

absl::Status CheckFits(const TrainRun& train) {
  if (IsDry(train.device)) return absl::OkStatus();
  const BestPlan& run = train.what;
  const std::int64_t capacity = train.capacity.bytes - train.capacity.overhead_bytes;
  const MemoryBytes memory = train.slice ? RankMemory(run, train.slice->pipeline()) : WorstRankMemory(run);
  if (memory.Arena() <= capacity) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "does not fit: plan {} needs {} a rank, {} more than the {} that a rank may use: {}",
      ShortPlanText(run.plan), base::BytesText(memory.Arena()), base::BytesText(memory.Arena() - capacity),
      base::BytesText(std::max<std::int64_t>(capacity, 0)), MemoryAdvice(run.plan, memory)));
}

}  // namespace autocfg::cli
