#include "cli/train/train_runner.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/os/trace_parent.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cli/input/devices.h"
#include "cli/input/files.h"
#include "cli/report/trace_file.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/train/checkpoint_run.h"
#include "cli/train/first_step_wait.h"
#include "cli/train/step_log.h"
#include "cli/train/train_report.h"
#include "cli/train/train_run.h"
#include "fmt/format.h"
#include "proto/convert/trainer_convert.h"
#include "search/cost/plan_op_times.h"
#include "search/plan/plan_text.h"
#include "search/schedule/program.h"
#include "search/text/chrome_trace.h"
#include "search/text/cluster_json.h"
#include "spdlog/spdlog.h"
#include "worker/jobs/job_runner.h"
#include "worker/launcher/process_launcher.h"
#include "worker/launcher/rank_link.h"
#include "worker/machine/gpu_health.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

absl::StatusOr<v1::Job> JobOf(const TrainRun& run, const TrainArgs& args) {
  v1::Job job = MakeTrainJob(run.what, run.device);
  job.set_trace_parent(base::TraceParentText(base::OwnTrace()));
  if (run.slice) job.set_ranks(1);
  v1::TrainSpec& spec = *job.mutable_train();
  *spec.mutable_optimizer() = run.optimizer;
  spec.set_steps(run.steps);
  spec.set_seed(run.seed);
  spec.set_data_path(args.data);
  spec.set_init_path(args.init);
  if (!args.save.empty()) {
    const auto path = ReplaceablePath(args.save);
    if (!path.ok()) return absl::Status(path.status().code(), fmt::format("--save: {}", Text(path.status())));
    spec.set_save_path(*path);
  }
  spec.set_checkpoint_path(args.checkpoint);
  spec.set_save_every(run.save_every);
  spec.set_resume_path(args.resume);
  spec.set_memory_capacity_bytes(run.capacity.bytes);
  spec.set_trace(!args.trace.empty());
  if (run.trace_steps > 1) spec.set_trace_steps(run.trace_steps);
  if (run.slice) *spec.mutable_slice() = *run.slice;
  if (run.emulated) {
    for (const OpTime& time : PlanOpTimes(run.what, *run.times)) {
      *spec.add_op_times() = ToProto(time);
    }
    spec.set_host_op_s(run.times->HostOpSeconds());
  }
  return job;
}

// Adds notes about ranks that share this machine's cores or GPUs.
void AddLoadNotes(TrainRun& run, std::int64_t ranks, std::size_t cores) {
  if (run.device == EngineDevice::kCpu && ranks > static_cast<std::int64_t>(cores)) {
    run.notes.push_back(fmt::format("{} ranks share {} core{}; times are not those of {} cores", ranks, cores,
                                    cores == 1 ? "" : "s", ranks));
  }
  if (!UsesGpus(run.device)) return;
  if (std::string note = SharedGpusNote(ranks, run.machine); !note.empty())
    run.notes.push_back(std::move(note));
  std::vector<std::string> used = UuidsOf(run.machine);
  used.resize(std::min(used.size(), static_cast<std::size_t>(ranks)));
  const std::chrono::seconds now{0};
  if (const std::string shortage = worker::WaitForFreeGpus(used, now, nullptr); !shortage.empty())
    run.notes.push_back(shortage + "; times are not those of a free GPU");
}

// Shows the ends of the ranks' logs to whoever asked for more than errors.
void ShowRankLogs(const worker::JobResult& result) {
  if (!spdlog::should_log(spdlog::level::info)) return;
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    std::istringstream lines(base::CleanUtf8(result.ranks[rank].log_tail, worker::kLogTailBytes));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) Note(fmt::format("rank {}: {}", rank, line));
    }
  }
}

// Returns how a run that failed continues; empty if it has no checkpoint. `checkpoint`: the directory of
// --checkpoint, or empty.
std::string HowToContinue(const std::string& checkpoint) {
  const bool continues = !checkpoint.empty() && HoldsCheckpoint(checkpoint);
  return continues ? "; continue with --resume " + ShellWord(checkpoint) : "";
}

int ExitOf(const worker::JobResult& result, const std::string& checkpoint) {
  if (result.outcome == v1::OUTCOME_MEASURED) return kExitDone;
  if (result.bad_input()) return Fail(kExitUsage, result.message);
  if (result.outcome != v1::OUTCOME_OUT_OF_MEMORY) {
    return Fail(kExitNegative,
                fmt::format("the run failed: {}{}", result.message, HowToContinue(checkpoint)));
  }
  std::string message = fmt::format("does not fit: {}", result.message);
  if (result.error.over_bytes() > 0) {
    message +=
        fmt::format("; {} bytes over, largest region: {}", result.error.over_bytes(), result.error.region());
  }
  return Fail(kExitNegative, message);
}

// What runs, for a user who waits for its first step.
std::string FirstStepText(const TrainRun& run) {
  const std::int64_t ranks = run.slice ? 1 : RankCount(run.what.plan);
  return fmt::format("{} on {} rank{}, {} sequences of {} tokens a step", PlanText(run.what.plan), ranks,
                     ranks == 1 ? "" : "s", run.what.workload.global_batch, run.what.workload.seq_len);
}

// Writes the trace of the ranks that --trace-ranks names, or that are shown by default.
absl::Status WriteTraceOf(const TrainRun& run, const TrainArgs& args, const v1::TrainResult& result) {
  std::vector<TraceRow> rows;
  for (const v1::TraceRow& message : result.trace()) {
    AUTOCFG_ASSIGN_OR_RETURN(auto row, FromProto(message));
    rows.push_back(row);
  }
  const Program program = Lower(run.what);
  TraceOrigin origin{.kind = run.emulated ? TraceKind::kEmulated : TraceKind::kMeasured,
                     .device = run.device,
                     .cluster = "",
                     .slice = std::nullopt};
  if (run.emulated) origin.cluster = run.emulated->name;
  if (run.slice) origin.slice = SliceCoordinates{run.slice->tensor(), run.slice->pipeline()};
  if (const std::string note = KeepTraceRanks(run.trace_ranks, run.what.plan, rows); !note.empty())
    Note(note);
  return WriteTrace(args.trace, program, rows, origin);
}

// Returns the run on the cluster of its peak rates: the emulated one, else this machine. Its GPUs have the
// rates of the preset of their name, if there is one.
std::optional<PlannedRun> RatedRun(const TrainRun& run) {
  PlannedRun rated{{run.what.model, run.what.workload, {}}, run.what.plan};
  if (run.emulated) {
    rated.cluster = *run.emulated;
    return rated;
  }
  auto here = worker::LocalCluster(run.slice ? 1 : RankCount(run.what.plan), run.machine);
  if (!here.ok() || here->groups.empty()) return std::nullopt;
  rated.cluster = *std::move(here);
  if (run.machine.gpus.empty()) return rated;
  for (const std::string& name : DevicePresetNames()) {
    if (!IsLike(name, run.machine.gpus.front())) continue;
    if (const auto preset = PresetCluster(name); preset.ok())
      rated.cluster.groups.front().device = preset->groups.front().device;
    break;
  }
  return rated;
}

// Prints the answer of a finished run: the summary, the trace if asked for, and whether the run diverged.
int AnswerRun(const TrainRun& run, const TrainArgs& args, const worker::JobResult& ranks) {
  const auto result = worker::TrainResultOf(ranks);
  if (!result.ok()) return Fail(result.status());
  RunDescription description{run.what.model, run.what.workload, PlanText(run.what.plan), run.device,
                             RankCount(run.what.plan)};
  description.slice = run.slice;
  if (run.emulated) description.emulated = run.emulated->name.empty() ? "unnamed" : run.emulated->name;
  int code = kExitDone;
  if (args.trace == kTraceToOutput) {
    fmt::print(stderr, "{}", TrainReport(*result, description));
  } else {
    code = Answer(args.json ? TrainJson(*result, description).dump(2) + "\n"
                            : TrainReport(*result, description));
  }
  if (!args.trace.empty()) {
    if (auto status = WriteTraceOf(run, args, *result); !status.ok())
      return Fail(kExitNegative, fmt::format("--trace: {}", Text(status)));
  }
  if (const std::string divergence = Divergence(*result);
      code == kExitDone && !run.slice && !divergence.empty()) {
    const bool has_checkpoint = !result->checkpoint_path().empty();
    return Fail(
        kExitNegative,
        fmt::format("the run diverged at {}{}{}; use a smaller --lr, more --warmup-steps or --clip-norm",
                    divergence,
                    args.save.empty() && args.checkpoint.empty() ? ""
                    : has_checkpoint                             ? ", nothing was saved after it"
                                                                 : ", nothing was saved",
                    has_checkpoint ? fmt::format(" (last checkpoint: {})", result->checkpoint_path()) : ""));
  }
  return code;
}

// Returns the exit status of a run that was interrupted before its last step, and says where it continues;
// nothing if it had done all steps.
std::optional<int> EndOfInterrupted(const TrainRun& run, const TrainArgs& args,
                                    const worker::JobResult& ranks) {
  const auto result = worker::TrainResultOf(ranks);
  if (!result.ok()) return Fail(result.status());
  const std::int64_t done = result->first_step() + result->losses_size();
  if (done >= run.steps) return std::nullopt;
  if (const std::string divergence = Divergence(*result); !divergence.empty()) {
    return Fail(kExitInterrupted, fmt::format("interrupted after step {}; {}, so nothing was saved after it",
                                              done, divergence));
  }
  return Fail(kExitInterrupted,
              fmt::format("interrupted after step {} of {}; saved {}; continue with --resume {}", done,
                          run.steps, result->checkpoint_path(), ShellWord(args.checkpoint)));
}

}  // namespace

v1::Job MakeTrainJob(const RunView& run, EngineDevice device) {
  v1::Job job;
  job.set_ranks(static_cast<std::int32_t>(RankCount(run.plan)));
  job.set_device(std::string(Name(device)));
  *job.mutable_train() = MakeTrainSpec(run);
  return job;
}

int CarryOut(TrainRun run, const TrainArgs& args) {
  const auto job = JobOf(run, args);
  if (!job.ok()) return Fail(job.status());
  const std::vector<int> cores = worker::PhysicalCores();
  AddLoadNotes(run, job->ranks(), cores.size());

  const std::string trainer = worker::FindTrainer();
  if (access(trainer.c_str(), X_OK) != 0) {
    return Fail(
        kExitUsage,
        fmt::format(
            "{}: the training engine is missing; build autocfg-trainer beside autocfg or set AUTOCFG_TRAINER",
            trainer.empty() ? "autocfg-trainer" : trainer));
  }
  if (const absl::Status status = worker::CheckSupervisor(); !status.ok()) return Fail(status);
  // A run with checkpoints ends in an orderly way, however long its step and its checkpoint take.
  const bool saves = !args.checkpoint.empty();
  const Interrupt interrupt(saves ? Interrupt::Limit::kNone : Interrupt::Limit::kSeconds);
  std::unique_ptr<StepLog> log;
  if (!args.log.empty()) {
    auto opened = StepLog::Open(args.log, /*appends=*/!args.resume.empty());
    if (!opened.ok()) return Fail(opened.status());
    log = *std::move(opened);
  }
  TrainDisplay display(args.json, Computes(run.device) && !run.slice, run.steps, run.what.workload,
                       RatedRun(run), log.get(), args.trace == kTraceToOutput ? stderr : stdout);
  worker::LaunchHooks hooks;
  if (saves) {
    hooks.finish = [&] {
      if (!interrupt.requested()) return false;
      Note("interrupted; ending after this step, with a checkpoint; interrupt again to end at once");
      return true;
    };
  } else {
    hooks.cancel = &interrupt.flag();
  }
  // Notes are printed once the ranks run, so that an error at their start is a single line.
  const auto say_notes = [&run] {
    for (const auto& note : std::exchange(run.notes, {})) Note(note);
  };
  FirstStepWait wait(Computes(run.device) && !args.json, FirstStepText(run));
  hooks.progress = [&](int rank, const v1::Progress& progress) {
    if (progress.step() > 0) wait.End();
    say_notes();
    for (const auto& note : progress.notes()) Note(note);
    display.Step(rank, progress);
  };
  worker::ProcessLauncher launcher(trainer);
  const worker::JobResult result =
      launcher.Run(worker::MakeJobRequest(*job, cores, UuidsOf(run.machine)), hooks);
  wait.End();
  display.End();
  const absl::Status logged = log != nullptr ? log->Finish() : absl::OkStatus();
  ShowRankLogs(result);
  if (result.outcome == v1::OUTCOME_CANCELLED && interrupt.requested())
    return Fail(kExitInterrupted, "interrupted; the ranks have ended, nothing was saved");
  if (saves && interrupt.requested() && result.outcome == v1::OUTCOME_FAILED && !result.bad_input()) {
    return Fail(kExitInterrupted, fmt::format("interrupted; the run ended without another checkpoint: {}{}",
                                              result.message, HowToContinue(args.checkpoint)));
  }
  if (const int code = ExitOf(result, args.checkpoint); code != kExitDone) return code;
  say_notes();
  if (saves && interrupt.requested()) {
    if (const auto ended = EndOfInterrupted(run, args, result); ended) return *ended;
  }
  const int code = AnswerRun(run, args, result);
  return code == kExitDone && !logged.ok() ? Fail(kExitNegative, Text(logged)) : code;
}

}  // namespace autocfg::cli
