#include "worker/jobs/engine_job.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "base/os/trace_parent.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/convert/device_convert.h"
#include "proto/convert/spec_convert.h"
#include "proto/merge_results.h"
#include "search/frameworks/export_target.h"
#include "worker/engines/command_template.h"
#include "worker/launcher/exchange.h"
#include "worker/launcher/job_directory.h"

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnFormName = "best.json";
constexpr std::chrono::milliseconds kExchangeLook{20};

// Returns the words of a file of flags, joined by line feeds. Empty for a file of another form.
std::string WordsOf(const std::string& format, const std::string& text) {
  std::string words;
  if (format != "megatron") return words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with('#')) continue;
    for (std::size_t from = line.find_first_not_of(' '); from != std::string::npos;) {
      const std::size_t to = std::min(line.find(' ', from), line.size());
      words += line.substr(from, to - from) + "\n";
      from = line.find_first_not_of(' ', to);
    }
  }
  return words;
}

PlaceholderValues ValuesOf(const EngineFile& engine, const v1::Job& job, const v1::Share& share,
                           const NodePlace& place, const std::string& scratch, const std::string& file,
                           const std::string& text) {
  const v1::TrainSpec& train = job.train();
  return {{"file", scratch + "/" + file},
          {"file_directory", scratch},
          {"file_stem", fs::path(file).stem().string()},
          {"arguments", WordsOf(engine.format, text)},
          {"plan_file", scratch + "/" + kOwnFormName},
          {"engine_directory", engine.directory},
          {"ranks", std::to_string(job.ranks())},
          {"nodes", std::to_string(place.nodes)},
          {"ranks_per_node", std::to_string(share.ranks())},
          {"node_rank", std::to_string(place.node_rank)},
          {"first_rank", std::to_string(share.first_rank())},
          {"master_address", place.master_address},
          {"master_port", std::to_string(place.master_port)},
          {"steps", std::to_string(train.steps())},
          {"warmup_steps", std::to_string(train.warmup_steps_untimed())},
          {"timed_steps", std::to_string(train.steps() - train.warmup_steps_untimed())},
          {"global_batch", std::to_string(train.workload().global_batch())},
          {"seq_len", std::to_string(train.workload().seq_len())},
          {"seed", std::to_string(train.seed())}};
}

absl::Status WriteScratch(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("{} cannot be written; free space in the worker's directory for temporary files", path));
}

// The files that the worker wrote for the engine.
struct WrittenFile {
  std::string name, text;
  std::vector<std::pair<std::string, std::string>> environment;
};

absl::StatusOr<WrittenFile> WriteFiles(const ExportedRun& run, const EngineFile& engine,
                                       const std::string& scratch) {
  const ExportTarget* own = FindExportTarget(kOwnEngine);
  const ExportTarget* target = FindExportTarget(engine.format);
  AUTOCFG_ASSIGN_OR_RETURN(const auto exported, Export(run, *target));
  AUTOCFG_ASSIGN_OR_RETURN(const auto form, Export(run, *own));
  // A framework's file of the name of our own form comes last, and so wins.
  for (const auto& [name, text] : {std::pair<std::string, const std::string&>{kOwnFormName, form.text},
                                   {std::string(target->file_name), exported.text}}) {
    AUTOCFG_RETURN_IF_ERROR(WriteScratch(fmt::format("{}/{}", scratch, name), text));
  }
  return WrittenFile{std::string(target->file_name), exported.text, exported.launch.environment};
}

// Returns the answer of the job's other workers; Cancelled once `cancel` is true.
absl::StatusOr<std::vector<std::string>> AskOthers(const LaunchHooks& hooks,
                                                   const std::vector<std::string>& cards) {
  Exchange exchange(hooks.exchange, "engine_nodes", 0, cards);
  while (!exchange.over()) {
    if (hooks.cancel != nullptr && hooks.cancel->load()) return absl::CancelledError("cancelled");
    std::this_thread::sleep_for(kExchangeLook);
  }
  return exchange.Take();
}

// Returns the ends of the logs, each under a heading with its rank if there are several.
std::string LogText(const EngineRunResult& result, const std::vector<EngineProcess>& processes) {
  constexpr std::size_t kMostLogs = 8;
  constexpr std::size_t kHeading = 32;
  const std::size_t shown = std::min(result.logs.size(), kMostLogs);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string& tail = result.logs[i].tail();
    if (tail.empty()) continue;
    if (processes[i].rank >= 0) text += fmt::format("rank {}:\n", processes[i].rank);
    text += base::CleanUtf8(tail, kMaxLogBytes / shown - kHeading);
    if (text.back() != '\n') text += '\n';
  }
  return text;
}

// Returns what the logs of the share's processes say; without steps if they tell of none.
v1::Measurement MeasurementIn(const EngineRunResult& result, const v1::Job& job, const v1::Share& share,
                              const EngineFile& engine) {
  const std::int64_t untimed = job.train().warmup_steps_untimed();
  const std::int64_t timed = job.train().steps() - untimed;
  std::vector<v1::Measurement> told;
  v1::Measurement all;
  all.set_engine(engine.name);
  all.set_engine_version(engine.version);
  for (const LogReader& log : result.logs) {
    v1::Measurement& one = told.emplace_back();
    one.set_engine(engine.name);
    one.set_engine_version(engine.version);
    for (const double seconds : log.TimedSteps(untimed, timed)) one.add_step_time_s(seconds);
    if (log.first_loss()) one.set_first_loss(*log.first_loss());
    if (log.last_loss()) one.set_last_loss(*log.last_loss());
    one.set_peak_memory_bytes(log.peak_memory_bytes());
    all.set_peak_memory_bytes(std::max(all.peak_memory_bytes(), log.peak_memory_bytes()));
  }
  if (auto merged = MergeMeasurements(told)) all = *std::move(merged);
  all.set_device_s(share.ranks() * result.wall_s);
  return all;
}

// Returns why the logs of a run that ended well have no timed step, and what to do.
std::string WhyNoTimedStep(const EngineRunResult& result, const v1::TrainSpec& train) {
  std::int64_t steps = 0, impossible = 0;
  for (const LogReader& log : result.logs) {
    steps = std::max(steps, log.steps());
    impossible += log.impossible_times();
  }
  if (steps > 0) {
    return fmt::format(
        "its log tells of no timed step: it tells of {} step{}, and the first {} are not timed; have it take "
        "{{steps}} steps, here {}",
        steps, steps == 1 ? "" : "s", train.warmup_steps_untimed(), train.steps());
  }
  if (impossible > 0) {
    return fmt::format(
        "its log tells of no timed step: {} time{} or rate{} that it tells of {} 0, or out of range; have it "
        "write more digits, or correct the unit in the engine's file",
        impossible, impossible == 1 ? "" : "s", impossible == 1 ? "" : "s", impossible == 1 ? "is" : "are");
  }
  return "its log tells of no timed step; compare the end of its log with the rules of the engine's file";
}

}  // namespace

absl::StatusOr<ExportedRun> ExportedRunOf(const v1::Job& job, const v1::Share& share) {
  if (!job.has_train() || job.train().has_slice())
    return absl::InvalidArgumentError("an engine runs whole plans alone, not slices or calibrations");
  AUTOCFG_ASSIGN_OR_RETURN(auto model, FromProto(job.train().model()));
  AUTOCFG_ASSIGN_OR_RETURN(auto workload, FromProto(job.train().workload()));
  AUTOCFG_ASSIGN_OR_RETURN(auto plan, FromProto(job.train().plan()));
  ExportedRun run{{{std::move(model), workload, {}}, std::move(plan)}};
  // A name with a line break would end its comment in the file, and begin a flag.
  AUTOCFG_RETURN_IF_ERROR(Validate(run.model));
  AUTOCFG_RETURN_IF_ERROR(CheckEngineSupports(run.model));
  AUTOCFG_RETURN_IF_ERROR(Validate(run.workload, run.model));
  run.cluster.local = true;
  NodeGroup& group = run.cluster.groups.emplace_back();
  group.device.kind = NeededKind(job).value_or(DeviceKind::kCpu);
  group.gpus_per_node = share.ranks();
  group.nodes = (job.ranks() + share.ranks() - 1) / share.ranks();
  return run;
}

std::vector<EngineProcess> EngineProcesses(
    const EngineFile& engine, const v1::Job& job, const v1::Share& share, const NodePlace& place,
    const std::string& scratch, const std::string& file, const std::string& text,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::vector<std::string>& gpus) {
  PlaceholderValues values = ValuesOf(engine, job, share, place, scratch, file, text);
  std::vector<EngineProcess> processes;
  for (int local = 0; local < (engine.per_rank ? share.ranks() : 1); ++local) {
    EngineProcess& process = processes.emplace_back();
    if (engine.per_rank) {
      process.rank = share.first_rank() + local;
      values["rank"] = std::to_string(process.rank);
      values["local_rank"] = std::to_string(local);
    }
    RankCommand& command = process.command;
    command.foreign = true;
    command.directory = scratch;
    command.arguments = Filled(engine.command, values);
    if (!gpus.empty())
      command.environment.push_back(fmt::format("CUDA_VISIBLE_DEVICES={}", fmt::join(gpus, ",")));
    // The engine's file has the last word.
    for (const auto& [name, value] : environment) {
      const bool replaced = std::any_of(engine.environment.begin(), engine.environment.end(),
                                        [&, &key = name](const auto& own) { return own.first == key; });
      if (!replaced) command.environment.push_back(fmt::format("{}={}", name, value));
    }
    for (const auto& [name, value] : engine.environment)
      command.environment.push_back(fmt::format("{}={}", name, Filled(value, values)));
  }
  return processes;
}

JobReport RunEngineJob(const v1::Job& job, const v1::Share& share, const EngineSetting& setting,
                       const LaunchHooks& hooks) {
  const EngineFile& engine = setting.engine;
  const auto message = [&](const absl::Status& status) {
    return base::CleanUtf8(
        fmt::format("{}: engine {}: {}", job.name(), engine.name, std::string(status.message())),
        kMaxMessageBytes);
  };
  if (!setting.gpus.empty() && setting.gpus.size() < static_cast<std::size_t>(share.ranks())) {
    return FailedReport(message(absl::InvalidArgumentError(
        fmt::format("{} ranks on {} GPUs, but it runs one on each", share.ranks(), setting.gpus.size()))));
  }
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  const JobDirectory scratch(error ? std::string("/tmp") : parent.string());
  if (scratch.path().empty())
    return RefusedReport(message(absl::UnavailableError("no directory could be made for its files")));
  const auto run = ExportedRunOf(job, share);
  if (!run.ok()) return FailedReport(message(run.status()));
  const auto file = WriteFiles(*run, engine, scratch.path());
  if (!file.ok())
    return absl::IsUnavailable(file.status()) ? RefusedReport(message(file.status()))
                                              : FailedReport(message(file.status()));

  auto port = FreePort::Take();
  if (!port.ok()) return RefusedReport(message(port.status()));
  NodePlace place{.master_address = "127.0.0.1", .master_port = port->number()};
  if (share.ranks() != job.ranks()) {
    const std::vector<std::string> cards(
        static_cast<std::size_t>(share.ranks()),
        NodeCard(setting.address, port->number(), setting.host, share.first_rank()));
    const auto all = AskOthers(hooks, cards);
    const auto found = all.ok() ? PlaceAmong(*all, share.first_rank()) : all.status();
    if (!found.ok()) {
      JobReport report = FailedReport(message(found.status()));
      if (absl::IsCancelled(found.status()) && hooks.cancel != nullptr && hooks.cancel->load()) {
        report.outcome = v1::OUTCOME_CANCELLED;
        report.failure = v1::FAILURE_KIND_UNSPECIFIED;
      } else if (!all.ok() && !absl::IsInvalidArgument(all.status())) {
        report.failure = v1::FAILURE_KIND_PEER;
      }
      return report;
    }
    place = *found;
  }
  auto environment = file->environment;
  if (const std::string span = base::NewSpanText(job.trace_parent()); !span.empty())
    environment.emplace_back("TRACEPARENT", span);
  EngineRun engine_run{
      .processes = EngineProcesses(engine, job, share, place, scratch.path(), file->name, file->text,
                                   environment, setting.gpus),
      .rules = engine.log,
      .size = {.samples = static_cast<double>(run->workload.global_batch),
               .tokens = static_cast<double>(run->workload.global_batch * run->workload.seq_len),
               .ranks = static_cast<double>(job.ranks())},
      .limits = engine.limits,
      .time_limit = std::chrono::duration<double>(job.time_limit_s()),
      .spans_workers = share.ranks() != job.ranks(),
      .supervisor_path = setting.supervisor_path,
      .job_limits = setting.limits};
  port->Release();
  const EngineRunResult result = RunEngine(engine_run, hooks.cancel, hooks.started);

  JobReport report;
  report.outcome = result.outcome;
  report.message = base::CleanUtf8(result.message, kMaxMessageBytes);
  if (report.outcome == v1::OUTCOME_FAILED) report.failure = result.failure;
  if (report.outcome != v1::OUTCOME_MEASURED) {
    report.log = LogText(result, engine_run.processes);
    return report;
  }
  report.measurement = MeasurementIn(result, job, share, engine);
  if (!report.measurement->step_time_s().empty()) return report;
  report.log = LogText(result, engine_run.processes);
  if (engine_run.spans_workers) return report;  // another worker's log may tell of the steps
  JobReport failed = FailedReport(fmt::format(
      "engine {} ended well, but {}{}", engine.name, WhyNoTimedStep(result, job.train()),
      result.logs.front().last_line().empty() ? "" : "; last line: " + result.logs.front().last_line()));
  failed.message = base::CleanUtf8(failed.message, kMaxMessageBytes);
  failed.log = std::move(report.log);
  return failed;
}

}  // namespace autocfg::worker
