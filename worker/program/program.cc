#include "worker/program/program.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/numbers.h"
#include "base/os/end_signals.h"
#include "base/os/host.h"
#include "base/os/log_fields.h"
#include "base/os/process.h"
#include "base/os/streams/standard_streams.h"
#include "base/service/heartbeat_file.h"
#include "base/service/log_output.h"
#include "base/service/service_manager.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "base/units.h"
#include "fmt/format.h"
#include "proto/rpc/channel.h"
#include "proto/rpc/duration.h"
#include "proto/rpc/endpoint_options.h"
#include "proto/rpc/token_file.h"
#include "spdlog/spdlog.h"
#include "worker/engines/engine_run.h"
#include "worker/engines/node_address.h"
#include "worker/jobs/worker_calls.h"
#include "worker/launcher/process_launcher.h"
#include "worker/machine/device_choice.h"
#include "worker/machine/network_interface.h"
#include "worker/program/worker.h"

namespace autocfg::worker {
namespace {

constexpr std::int64_t kMostSlots = 1024;
constexpr std::size_t kMaxId = 100;
// More than an orderly end takes if the coordinator does not answer: a second until the ranks are killed,
// then the deadlines of a job's log, its report and the deregistration (worker/jobs/worker_calls.cc).
constexpr int kEndLimitSeconds = 15;

// The options, and the values that Check parses into them.
struct Texts {
  ProgramOptions options;
  std::string coordinator, slots, name, wait = "60s";
  EndpointOptions access;
  std::string job_processes, job_memory;
  base::LogOptions log;
  std::string until, until_grace = "30s";
};

constexpr const char* kProgram = "autocfg-worker";

bool IsPlain(unsigned char c) {
  return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
}

ProgramEnd Usage(std::string message) { return {2, std::move(message)}; }

absl::Status CheckDirectories(std::string_view option, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    std::error_code error;
    const bool is_directory = std::filesystem::is_directory(directory, error);
    const std::string quoted = base::Printable(directory);
    if (error) return base::InvalidArgument(option, fmt::format("{}: {}", quoted, error.message()));
    if (!is_directory) return base::InvalidArgument(option, quoted + " is not a directory");
    if (!std::filesystem::path(directory).is_absolute())
      return base::InvalidArgument(option, quoted + " is a relative path; give an absolute one");
  }
  return absl::OkStatus();
}

// Parses a count from 1; 0 for an empty text.
absl::StatusOr<std::int64_t> CountOf(std::string_view option, const std::string& text, std::int64_t most) {
  if (text.empty()) return 0;
  if (const auto value = base::ParseNumber<std::int64_t>(text, 1, most)) return *value;
  return base::InvalidArgument(
      option, fmt::format("'{}' is not a whole number from 1 to {}", base::Printable(text), most));
}

// Parses what each job may take of the memory; 0 for an empty text.
absl::StatusOr<std::int64_t> MemoryOf(const std::string& text) {
  if (text.empty()) return 0;
  const auto bytes = base::ParseQuantity(base::Quantity::kBytes, text);
  if (bytes.ok() && *bytes >= static_cast<double>(kLeastMemoryAllowed) &&
      *bytes <= static_cast<double>(kMostMemoryAllowed))
    return static_cast<std::int64_t>(*bytes);
  return base::InvalidArgument(
      "--job-memory", fmt::format("'{}' is not a size from {} to {}, such as 64GB", base::Printable(text),
                                  base::BytesText(kLeastMemoryAllowed), base::BytesText(kMostMemoryAllowed)));
}

// Returns the parser's message without its line break and full stop.
std::string Words(const CLI::ParseError& error) {
  std::string what = error.what();
  while (!what.empty() && (what.back() == '\n' || what.back() == '.' || what.back() == ' ')) what.pop_back();
  std::replace(what.begin(), what.end(), '\n', ' ');
  return what + " (autocfg-worker --help)";
}

// Reads when the worker must go.
absl::StatusOr<DepartureOptions> DepartureOf(const Texts& texts) {
  DepartureOptions departure = texts.options.departure;
  const double now_s = base::SystemClock()();
  std::string of_slurm = base::Environment("SLURM_JOB_END_TIME");
  if (of_slurm == "0") of_slurm.clear();  // a job without a limit
  const char* const name = texts.until.empty() ? "SLURM_JOB_END_TIME" : "--until";
  if (const std::string& text = texts.until.empty() ? of_slurm : texts.until; !text.empty()) {
    const auto at_s = ParseDeparture(text, now_s);
    if (!at_s.ok()) return base::WithSubject(name, at_s.status());
    if (*at_s <= now_s)
      return base::InvalidArgument(name,
                                   fmt::format("'{}' has passed; give a later time", base::Printable(text)));
    departure.at_s = *at_s;
  }
  AUTOCFG_ASSIGN_OR_RETURN(departure.grace_s,
                           ParseDuration("--until-grace", texts.until_grace, 0, kYearSeconds));
  return departure;
}

absl::StatusOr<ProgramOptions> Check(const Texts& texts) {
  ProgramOptions options = texts.options;
  if (texts.coordinator.empty())
    return absl::InvalidArgumentError(
        "--coordinator is missing; give the coordinator's address, unix:PATH or HOST:PORT");
  AUTOCFG_ASSIGN_OR_RETURN(options.coordinator, EndpointFor(texts.coordinator, texts.access));
  options.insecure = texts.access.insecure;
  AUTOCFG_ASSIGN_OR_RETURN(options.slots, CountOf("--slots", texts.slots, kMostSlots));
  const std::string id = texts.name.empty() ? WorkerIdOf(base::HostName()) : texts.name;
  if (id.size() > kMaxId || !std::all_of(id.begin(), id.end(), IsPlain)) {
    return base::InvalidArgument(
        "--name", fmt::format("a name has at most {} letters, digits, '-', '_' and '.'", kMaxId));
  }
  options.name = "workers/" + id;
  AUTOCFG_ASSIGN_OR_RETURN(options.wait_s, ParseDuration("--wait", texts.wait, 0, kYearSeconds));
  AUTOCFG_RETURN_IF_ERROR(CheckDirectories("--data-dir", options.files.data_dirs));
  AUTOCFG_RETURN_IF_ERROR(CheckDirectories("--save-dir", options.files.save_dirs));
  AUTOCFG_ASSIGN_OR_RETURN(options.allowance.processes,
                           CountOf("--job-processes", texts.job_processes, kMostProcessesAllowed));
  AUTOCFG_ASSIGN_OR_RETURN(options.allowance.memory_bytes, MemoryOf(texts.job_memory));
  AUTOCFG_ASSIGN_OR_RETURN(options.log, base::LogOutputOf(kProgram, texts.log));
  AUTOCFG_ASSIGN_OR_RETURN(options.departure, DepartureOf(texts));
  if (!options.address.empty() && !IsAddress(options.address)) {
    return base::InvalidArgument("--address",
                                 fmt::format("'{}' is no address; give one such as 10.0.0.3 or a host's name",
                                             base::Printable(options.address)));
  }
  return options;
}

int Fail(int exit_code, const std::string& message) {
  base::AlwaysLog(kProgram, /*error=*/true, message);
  return exit_code;
}

int Fail(const absl::Status& status) {
  const bool wrong = !MayPass(status) || IsRefused(status);
  return Fail(wrong ? kExitUsage : kExitUnreachable, std::string(status.message()));
}

int EndedBy(const base::EndSignals& signals) {
  spdlog::info("{}: ending", base::EndSignals::Name(signals.Wait()));
  return kExitDone;
}

// Stops the worker at the first signal, or immediately if one has come already, and tells the service
// manager.
class StopAtSignal {
 public:
  StopAtSignal(const base::EndSignals& signals, Worker& worker, base::ServiceManager& manager)
      : signals_(signals), thread_([&] {
          const int signal = signals.Wait();
          if (signal == 0) return;
          spdlog::info("{}: ending", base::EndSignals::Name(signal));
          manager.Stopping("ending; its jobs go back to the queue");
          worker.Stop();
        }) {}
  ~StopAtSignal() {
    signals_.StopWaiting();
    thread_.join();
  }
  StopAtSignal(const StopAtSignal&) = delete;
  StopAtSignal& operator=(const StopAtSignal&) = delete;

 private:
  const base::EndSignals& signals_;
  std::thread thread_;
};

// Makes ranks use the interface that is named, else the one from which the coordinator is reached. Over the
// loopback the coordinator says nothing about networks: then the libraries choose.
absl::Status ChooseInterface(const ProgramOptions& program) {
  std::string interface = program.interface;
  if (!interface.empty()) {
    if (auto address = AddressOf(interface); !address.ok())
      return base::Within("--interface", address.status());
  } else {
    const auto address = OwnAddress(program.coordinator.target);
    if (address.ok() && IsLoopback(*address)) return absl::OkStatus();
    if (address.ok()) interface = InterfaceOf(*address);
    if (interface.empty()) {
      spdlog::warn(
          "ranks may use every network interface, because none is known to reach the coordinator; "
          "--interface names one");
      return absl::OkStatus();
    }
  }
  SetVariables(InterfaceVariables(interface, RdmaPorts()));
  spdlog::info("ranks reach those of other machines over network interface {}{}", interface,
               program.interface.empty() ? ", which reaches the coordinator" : "");
  return absl::OkStatus();
}

// Returns this machine's address for the ranks of other machines.
absl::StatusOr<std::string> AddressForRanks(const ProgramOptions& program) {
  if (!program.address.empty()) return program.address;
  auto address =
      program.interface.empty() ? OwnAddress(program.coordinator.target) : AddressOf(program.interface);
  if (!address.ok())
    return base::Within(program.interface.empty() ? "--coordinator" : "--interface", address.status());
  return address;
}

// Reads the engines that the worker offers, and this machine's address for their ranks.
absl::Status LoadOffer(const ProgramOptions& program, EngineOffer& offer) {
  if (program.engine_files.empty()) return absl::OkStatus();
  auto engines = LoadEngineFiles(program.engine_files);
  if (!engines.ok()) return base::Within("--engines", engines.status());
  offer.engines = *std::move(engines);
  AUTOCFG_RETURN_IF_ERROR(base::Within("--engines", ReadEngineVersions(offer.engines, FindSupervisor())));
  AUTOCFG_ASSIGN_OR_RETURN(offer.address, AddressForRanks(program));
  for (const EngineFile& engine : offer.engines)
    spdlog::info("offers engine {}, version {}", engine.name, engine.version);
  return absl::OkStatus();
}

// Adds what the worker finds on its machine.
absl::Status Equip(ProgramOptions& options) {
  options.trainer_path = FindTrainer();
  if (access(options.trainer_path.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        fmt::format("{}: the training engine is missing; build autocfg-trainer beside "
                    "autocfg-worker or set AUTOCFG_TRAINER",
                    options.trainer_path));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckSupervisor());
  AUTOCFG_RETURN_IF_ERROR(ChooseInterface(options));  // before this process has other threads
  AUTOCFG_ASSIGN_OR_RETURN(const auto devices, ChooseDevices(options.devices, options.trainer_path));
  for (const std::string& note : devices.notes) spdlog::info("{}", note);
  if (const std::string warning = TokenFileWarning(options.coordinator.token_file); !warning.empty())
    spdlog::warn("{}", warning);
  options.inventory = InventoryOf(devices, options.slots);
  options.cores = devices.cores;
  return LoadOffer(options, options.engines);
}

int RunWorker(ProgramOptions options) {
  if (const absl::Status status = Equip(options); !status.ok())
    return Fail(kExitUsage, std::string(status.message()));

  const base::EndSignals signals(
      {.program = kProgram, .limit_s = kEndLimitSeconds, .exit_status = kExitInternal});
  options.cancel = &signals.flag();
  std::unique_ptr<Worker> worker;
  base::ServiceManager manager;  // these two are destroyed before the worker, whose loop they watch
  base::HeartbeatFile heartbeat;
  if (!options.heartbeat.empty()) {
    if (const absl::Status status = heartbeat.Prepare(options.heartbeat); !status.ok())
      return Fail(kExitUsage, fmt::format("--heartbeat: {}", std::string(status.message())));
  }
  auto started = Worker::Start(options);
  if (!started.ok()) return signals.requested() ? EndedBy(signals) : Fail(started.status());
  worker = *std::move(started);
  const std::string registered = fmt::format(
      "registered with {} as {}: {} slot{} on {}", options.coordinator.target, options.name,
      options.inventory.slots(), options.inventory.slots() == 1 ? "" : "s", options.inventory.device_kind());
  spdlog::info("{}", registered);
  manager.Ready(registered);
  const auto rounds = [&] { return worker->rounds(); };
  manager.WatchLoops(rounds);
  heartbeat.Start(rounds);
  const StopAtSignal stop(signals, *worker, manager);
  // Superseded: the worker has already logged the error.
  const absl::Status ended = worker->WaitUntilEnded();
  manager.Stopping(ended.ok() ? "drained" : "another worker has registered under its name");
  return ended.ok() ? kExitDone : kExitSuperseded;
}

}  // namespace

std::string WorkerIdOf(const std::string& hostname) {
  std::string id = hostname.substr(0, kMaxId);
  for (char& c : id) {
    if (!IsPlain(static_cast<unsigned char>(c))) c = '-';
  }
  return id.empty() ? "worker" : id;
}

std::variant<ProgramOptions, ProgramEnd> ParseProgramOptions(int argc, const char* const* argv) {
  CLI::App app("autocfg-worker: runs the jobs of an autocfg coordinator on this machine", "autocfg-worker");
  app.set_version_flag("--version",
                       fmt::format("autocfg-worker {} (build {})", base::Version(), base::BuildId()));
  Texts texts;
  app.add_option("--coordinator", texts.coordinator, "address of the coordinator: unix:PATH or HOST:PORT");
  app.add_option("--devices", texts.options.devices,
                 "devices that ranks run on: auto, cpu, cpu:CORES, cuda, cuda:INDEXES (default: auto, the "
                 "GPUs if there are any)");
  app.add_option("--slots", texts.slots, "maximum number of concurrent ranks (default: one per core or GPU)");
  app.add_option("--name", texts.name, "unique name of this worker (default: the host's name)");
  app.add_option("--wait", texts.wait, "how long to try to reach the coordinator (default: 60s)");
  app.add_option("--data-dir", texts.options.files.data_dirs,
                 "directory in which jobs may read files; repeatable (default: none)")
      ->allow_extra_args(false);
  app.add_option("--save-dir", texts.options.files.save_dirs,
                 "directory in which jobs may write files; repeatable (default: none)")
      ->allow_extra_args(false);
  app.add_option("--job-processes", texts.job_processes,
                 "maximum number of processes of a job; a job with more is killed (default: 1024 a rank)");
  app.add_option("--job-memory", texts.job_memory,
                 "maximum memory of a job's processes, such as 64GB; a job with more is killed (default: 95% "
                 "of the machine's)");
  app.add_option("--engines", texts.options.engine_files,
                 "directory of files *.json, each of which offers an engine beside the built-in one "
                 "(default: none)");
  app.add_option("--address", texts.options.address,
                 "address of this machine where the ranks of other workers reach an engine's (default: that "
                 "of --interface, or from which it reaches the coordinator)");
  app.add_option("--interface", texts.options.interface,
                 "network interface over which ranks reach those of other machines (default: the one that "
                 "reaches the coordinator)");
  AddEndpointOptions(app, texts.access);
  app.add_option(
      "--heartbeat", texts.options.heartbeat,
      "file that is written again and again while the worker goes on, for a probe (default: none)");
  app.add_option(
      "--until", texts.until,
      "when the worker must go: a time such as 2026-11-27T03:00:00Z, Unix seconds, or a duration such "
      "as 2h (default: $SLURM_JOB_END_TIME, else never)");
  app.add_option(
      "--until-file", texts.options.departure.file,
      "file that holds such a time once there is a notice that the worker must go (default: none)");
  app.add_option("--until-grace", texts.until_grace,
                 "how long before it must go the worker takes no more jobs (default: 30s)");
  base::AddLogOptions(app, texts.log);
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  std::reverse(words.begin(), words.end());  // CLI11 expects reversed arguments
  try {
    app.parse(words);
  } catch (const CLI::Success& success) {  // --help, --version
    if (app.exit(success) == 0 && base::FlushStandardOutput()) return ProgramEnd{};
    return ProgramEnd{kExitUsage, "standard output: cannot write to it; redirect it elsewhere"};
  } catch (const CLI::ParseError& error) {
    return Usage(Words(error));
  }
  for (const CLI::Option* option : app.get_options()) {
    const auto& results = option->results();
    if (std::find(results.begin(), results.end(), "") != results.end())
      return Usage(fmt::format("{}: its value is empty; give one, or omit the option", option->get_name()));
  }
  auto options = Check(texts);
  if (!options.ok()) return Usage(std::string(options.status().message()));
  return *std::move(options);
}

int CatchingAll(const std::function<int()>& program) {
  try {
    return program();
  } catch (const std::exception& error) {
    return Fail(kExitInternal, fmt::format("internal error: {}; please report it", error.what()));
  }
}

int WorkerMain(int argc, char** argv) {
  base::SetUpLog(kProgram, base::LogLevel::kInfo);
  return CatchingAll([&] {
    const auto parsed = ParseProgramOptions(argc, argv);
    if (const auto* end = std::get_if<ProgramEnd>(&parsed))
      return end->exit_code == kExitDone ? kExitDone : Fail(end->exit_code, end->message);
    const auto& options = std::get<ProgramOptions>(parsed);
    if (const absl::Status status = base::SetLogOutput(options.log); !status.ok())
      return Fail(kExitUsage, std::string(status.message()));
    const base::LogScope scope({.worker = options.name});
    return RunWorker(options);
  });
}

}  // namespace autocfg::worker
