// autocfg search: finds the fastest plan that fits, with the coordinator and a worker inside this process.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/console.h"
#include "cli/devices.h"
#include "cli/embedded_service.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/paths.h"
#include "cli/progress.h"
#include "cli/refused_options.h"
#include "cli/report.h"
#include "cli/results_json.h"
#include "cli/study_client.h"
#include "cli/study_watcher.h"
#include "cli/verbs.h"
#include "fmt/format.h"
#include "proto/convert/cluster_convert.h"
#include "proto/convert/model_convert.h"
#include "proto/convert/workload_convert.h"
#include "search/cost/predict_plan.h"
#include "search/text/prediction_json.h"
#include "search/text/typical_figures.h"
#include "server/search_problem.h"
#include "worker/inventory.h"
#include "worker/process_launcher.h"

namespace autocfg {
namespace {

struct SearchArgs {
  std::string model, cluster = "local", global_batch, seq_len, precision, device, max_trials, time_budget,
                     database, output;
  std::vector<std::string> space;
  bool exhaustive = false;
  bool predict_only = false;
  bool json = false;
  std::string program;  // how to start this program
  RefusedOptions refused;
};

struct SearchRequest {
  SearchQuestion question;
  v1::SearchSpec spec;
  GpuList machine;  // on device cuda: what measures
};

// What the server says of a field of the request, said of the option that it came from; what a cluster lacks, of what was given as one.
absl::Status OfOption(const absl::Status& status, std::string_view cluster) {
  struct Field {
    std::string_view name, option, subject;
  };
  static constexpr Field kFields[] = {{"spec.model: ", "--model", "model"},
                                      {"spec.workload.global_batch: ", "--global-batch", ""},
                                      {"spec.workload.precision: ", "--precision", ""},
                                      {"spec.workload: ", "workload", "workload"},
                                      {"spec.cluster: ", "--cluster", "cluster"},
                                      {"spec.space: ", "--space", "space"},
                                      {"spec.device: ", "--device", ""}};
  const std::string message = Text(status);
  constexpr std::string_view kLacks = "spec.cluster: cluster of ";
  if (message.starts_with(kLacks)) {
    if (const auto colon = message.find(": ", kLacks.size()); colon != std::string::npos)
      return {status.code(), fmt::format("--cluster: {}{}", cluster, message.substr(colon))};
  }
  for (const Field& field : kFields) {
    if (message.starts_with(field.name))
      return Where(field.option, {status.code(), message.substr(field.name.size())}, field.subject);
  }
  return status;
}

// Options that say how to measure mean nothing where nothing is measured.
absl::Status CheckPredictOnly(const SearchArgs& args) {
  if (!args.predict_only) return absl::OkStatus();
  for (const auto& [name, given] : {std::pair<const char*, bool>{"--exhaustive", args.exhaustive},
                                    {"--max-trials", !args.max_trials.empty()},
                                    {"--time-budget", !args.time_budget.empty()},
                                    {"--device", !args.device.empty() && args.device != "auto"}}) {
    if (given) {
      return absl::InvalidArgumentError(
          fmt::format("--predict-only and {} exclude each other: with the first, nothing is measured", name));
    }
  }
  return absl::OkStatus();
}

// Whether the cluster's own figures are gone by, in place of this machine's.
bool IsDescribed(const SearchQuestion& question) {
  return question.device == "paced" || (question.predict_only && !question.cluster.local);
}

// The device, the cluster and the precision, each of which follows from those before.
absl::Status LoadMachine(const SearchArgs& args, std::string asked, SearchRequest& request, Precision& precision) {
  SearchQuestion& question = request.question;
  auto cluster = asked == "paced" ? LoadDescribedCluster(args.cluster) : LoadCluster(args.cluster);
  if (!cluster.ok()) return cluster.status();
  question.cluster = *std::move(cluster);
  // What is only predicted from its figures needs no device, and CPUs are measured on CPUs.
  const bool on_cpus = question.cluster.groups.front().device.kind == DeviceKind::kCpu;
  if (asked == "auto" && !question.cluster.local && (question.predict_only || on_cpus)) asked = "cpu";
  auto device = ChooseDevice(asked, args.precision);
  if (!device.ok()) return device.status();
  question.device = device->name;
  question.notes = device->notes;
  if (IsDescribed(question)) {
    if (std::string note = PrecisionNote(question.cluster); args.precision.empty() && !note.empty()) question.notes.push_back(std::move(note));
    if (std::string note = AssumeTypicalFigures(question.cluster); !note.empty()) question.notes.push_back(std::move(note));
  } else {
    const bool local_gpus = question.cluster.local && device->name == "cuda";
    cluster = local_gpus ? LoadCluster(args.cluster, device->machine) : MeasuredHere(args.cluster, question.cluster, *device);
    if (!cluster.ok()) return cluster.status();
    question.cluster = *std::move(cluster);
  }
  const auto loaded = IsDescribed(question)       ? LoadPredictedPrecision(args.precision, question.cluster)
                      : device->name == "cuda" ? LoadGpuPrecision(args.precision)
                                               : LoadPrecision(args.precision);
  if (!loaded.ok()) return loaded.status();
  precision = *loaded;
  const auto gpus = static_cast<std::int64_t>(device->machine.gpus.size());
  if (gpus > 0 && !question.cluster.local && gpus < question.cluster.groups.front().gpus_per_node) request.spec.set_machine_ranks(gpus);
  request.machine = std::move(device->machine);
  return absl::OkStatus();
}

absl::StatusOr<SearchRequest> LoadSearch(const SearchArgs& args) {
  SearchRequest request;
  SearchQuestion& question = request.question;
  if (auto status = CheckPredictOnly(args); !status.ok()) return status;
  const auto device = LoadDevice(args.device, /*dry=*/false);
  if (!device.ok()) return device.status();
  question.predict_only = args.predict_only;
  if (args.model.empty())
    return absl::InvalidArgumentError("--model is missing; give a preset, such as gpt2-tiny, or a file");
  if (args.global_batch.empty())
    return absl::InvalidArgumentError("--global-batch is missing; give the sequences per step");
  const auto global_batch = ParseWhole("--global-batch", args.global_batch, 1, kMaxGlobalBatch);
  if (!global_batch.ok()) return global_batch.status();
  std::int64_t seq_len = 0;
  if (!args.seq_len.empty()) {
    const auto parsed = ParseWhole("--seq-len", args.seq_len, 1, kMaxSeqLen);
    if (!parsed.ok()) return parsed.status();
    seq_len = *parsed;
  }
  const auto model = LoadModel(args.model, seq_len);
  if (!model.ok()) return model.status();
  question.model = *model;
  if (auto status = args.predict_only ? CheckPredictable(*model) : CheckEngineSupports(*model); !status.ok())
    return Where(fmt::format("--model: {}", args.model), status, "model");
  Precision precision;
  if (auto status = LoadMachine(args, *device, request, precision); !status.ok()) return status;
  question.workload = {*global_batch, seq_len != 0 ? seq_len : model->max_seq_len, precision};
  if (auto status = Validate(question.workload, *model); !status.ok()) return status;
  const auto space = LoadSpace(args.space);
  if (!space.ok()) return space.status();
  v1::SearchSpec& spec = request.spec;
  if (!args.max_trials.empty()) {
    const auto trials = ParseWhole("--max-trials", args.max_trials);
    if (!trials.ok()) return trials.status();
    spec.set_max_trials(*trials);
  }
  if (!args.time_budget.empty()) {
    const auto budget = ParseDuration("--time-budget", args.time_budget);
    if (!budget.ok()) return budget.status();
    spec.set_time_budget_s(*budget);
  }
  *spec.mutable_model() = ToProto(question.model);
  *spec.mutable_cluster() = ToProto(question.cluster);
  *spec.mutable_workload() = ToProto(question.workload);
  for (const auto& [name, values] : *space) {
    auto& axis = *spec.add_space();
    axis.set_name(name);
    for (const auto& value : values) axis.add_values(value);
  }
  spec.set_exhaustive(args.exhaustive);
  spec.set_predict_only(args.predict_only);
  spec.set_device(question.device);
  // As the server will judge it, before there is a database.
  if (const auto problem = ParseSearchSpec(spec); !problem.ok()) return OfOption(problem.status(), args.cluster);
  if (!model->rope_scaling.empty()) question.notes.push_back(RopeScalingNote(*model));
  return request;
}

// Makes the study, or finds the unfinished one of the same question, and sets it going; other unfinished ones
// wait, so that nothing else is measured meanwhile.
absl::StatusOr<v1::Study> Begin(StudyClient& client, const v1::SearchSpec& spec) {
  const double now_s = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  v1::CreateStudyRequest create;
  create.set_request_id(NewRequestId());
  *create.mutable_spec() = spec;
  create.set_reuse_unfinished(true);
  auto study = client.CreateStudy(create);
  if (!study.ok()) return study.status();
  if (study->state() != v1::STUDY_STATE_CREATED || study->create_time_s() < now_s - 1) {
    Note(fmt::format("going on with study {}, which was not finished; {} plans were measured so far",
                     LastPart(study->name()), study->counts().measured()));
  }
  const auto others = client.ListStudies();
  if (!others.ok()) return others.status();
  for (const auto& other : *others) {
    if (other.state() != v1::STUDY_STATE_RUNNING || other.name() == study->name()) continue;
    if (const auto paused = client.PauseStudy(other.name()); !paused.ok()) return paused.status();
    Note(fmt::format("study {} was stopped before its end and waits; its own command goes on with it",
                     LastPart(other.name())));
  }
  if (study->state() == v1::STUDY_STATE_CREATED) return client.StartStudy(study->name());
  if (study->state() == v1::STUDY_STATE_PAUSED) return client.ResumeStudy(study->name());
  return study;
}

std::string NextCommand(const SearchArgs& args, const v1::Recommendation& answer, const SearchRequest& request) {
  const SearchQuestion& question = request.question;
  if (!args.output.empty() && ReplaceablePath(args.output).ok() && question.cluster.local)
    return fmt::format("{} train --input {} --steps 10{}", args.program, ShellWord(args.output),
                       args.device == "cpu" || args.device == "cuda" ? " --device " + args.device : "");
  const std::string plan = answer.best().plan_text();
  const std::string workload =
      fmt::format("--model {} --global-batch {} --seq-len {} --precision {}", ShellWord(args.model),
                  question.workload.global_batch, question.workload.seq_len, Name(question.workload.precision));
  if (question.predict_only && IsDescribed(question))
    return fmt::format("{} explain {} --cluster {} --plan {}", args.program, workload, ShellWord(args.cluster), plan);
  std::string how;
  if (args.device == "cpu" || args.device == "cuda") how = " --device " + args.device;
  if (question.device == "paced") how = fmt::format(" --device paced --cluster {}", ShellWord(args.cluster));
  // The plan is larger than this machine, whether a slice of it was measured or not.
  const auto& group = question.cluster.groups.front();
  const std::int64_t at_once = request.spec.machine_ranks() > 0 ? request.spec.machine_ranks() : group.gpus_per_node;
  if (!question.cluster.local && !IsDescribed(question) && RankCount(question.cluster) > at_once) how += " --slice 0,0";
  return fmt::format("{} train {} --plan {} --steps 10{}", args.program, workload, plan, how);
}

int Present(const SearchArgs& args, const v1::Recommendation& answer, const SearchRequest& request) {
  const SearchQuestion& question = request.question;
  const auto json = SearchJson(answer, question);
  if (!json.ok()) return Fail(kExitNegative, Text(json.status()));
  const bool found = answer.nothing_fits().empty();
  if (!args.output.empty() && found) {
    if (auto status = WriteFileAtomically(args.output, json->dump(2) + "\n"); !status.ok()) {
      return Fail(kExitNegative, fmt::format("--output: {}; the answer is in study {} of the database",
                                             Text(status), LastPart(answer.study())));
    }
  }
  const std::string text =
      args.json ? json->dump(2) + "\n" : SearchReport(answer, question, NextCommand(args, answer, request));
  if (const int code = Answer(text); code != kExitDone) return code;
  if (!found) return Fail(kExitNegative, fmt::format("nothing fits: {}", answer.nothing_fits()));
  return kExitDone;
}

// Ranks that are run together: all of them where they are, else those of the node that this machine stands for, as far as it has GPUs for them.
std::int64_t RanksAtOnce(const SearchRequest& request) {
  const SearchQuestion& question = request.question;
  if (question.cluster.local || question.device == "paced") return RankCount(question.cluster);
  const std::int64_t machine = request.spec.machine_ranks();
  return machine > 0 ? machine : question.cluster.groups.front().gpus_per_node;
}

// On what a measurement says where the machine is smaller than what it stands for.
std::vector<std::string> LoadNotes(const SearchRequest& request, std::int64_t slots) {
  std::vector<std::string> notes;
  const std::int64_t ranks = RankCount(request.question.cluster);
  const std::int64_t machine = request.spec.machine_ranks();
  if (machine > 0) {
    notes.push_back(fmt::format("this machine has {} of the {} GPUs of a node: of larger plans a slice is measured, one rank alone", machine,
                                request.question.cluster.groups.front().gpus_per_node));
  } else if (slots < ranks) {
    notes.push_back(fmt::format("this machine stands for one node of {} rank{}: of larger plans a slice is measured, one rank alone", slots,
                                slots == 1 ? "" : "s"));
  }
  if (request.question.device == "cuda") {
    if (std::string note = SharedGpusNote(slots, request.machine); !note.empty()) notes.push_back(std::move(note));
    return notes;
  }
  const auto cores = static_cast<std::int64_t>(PhysicalCores().size());
  if (slots > cores && slots < ranks) {
    notes.push_back(fmt::format("{} rank{} run{} at once, one on each core, in place of a node's {}: what is timed is a rank, not ranks that share a core",
                                cores, cores == 1 ? "" : "s", cores == 1 ? "s" : "", slots));
  } else if (slots > cores) {
    notes.push_back(fmt::format("{} ranks share {} core{}; plans are compared as loaded as that", slots, cores, cores == 1 ? "" : "s"));
  }
  return notes;
}

int RunSearch(const SearchArgs& args) {
  if (auto status = args.refused.Check(); !status.ok()) return Fail(status);
  auto request = LoadSearch(args);
  if (!request.ok()) return Fail(request.status());
  if (!args.output.empty()) {
    if (auto status = CheckWritable(args.output); !status.ok())
      return Fail(kExitUsage, fmt::format("--output: {}", Text(status)));
  }
  const auto database = DatabasePath(args.database);
  if (!database.ok()) return Fail(database.status());
  const SearchQuestion& question = request->question;
  const std::int64_t slots = RanksAtOnce(*request);
  if (!IsDescribed(question)) {
    for (std::string& note : LoadNotes(*request, slots)) request->question.notes.push_back(std::move(note));
  }
  for (const std::string& note : question.notes) Note(note);

  const Interrupt interrupt;
  auto started = EmbeddedService::Start(*database);
  if (!started.ok()) return Fail(kExitUsage, fmt::format("--db: {}", Text(started.status())));
  const auto service = *std::move(started);
  StudyClient client(service->address());
  const auto study = Begin(client, request->spec);
  if (!study.ok()) return Fail(study.status());
  if (question.device == "paced" || !IsDescribed(question)) {
    if (auto status = service->StartWorker(slots, request->machine); !status.ok()) return Fail(status);
  }

  StudyWatcher watcher(service->address(), study->name());
  ProgressDisplay display(stderr);
  const auto began = std::chrono::steady_clock::now();
  while (!interrupt.requested() && !watcher.WaitForEnd(0.2)) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
    if (display.active()) {
      display.Draw(
          ProgressLines(watcher.Latest(), elapsed.count(), request->spec.time_budget_s(), display.Width()));
    }
  }
  display.Clear();
  if (interrupt.requested()) {
    watcher.Stop();
    service->Stop();
    return Fail(
        kExitNegative,
        fmt::format("interrupted; study {} keeps what was measured, and the same command goes on with it",
                    LastPart(study->name())));
  }
  if (!watcher.status().ok()) return Fail(Where("the embedded coordinator", watcher.status()));
  const v1::Study ended = watcher.Latest();
  if (ended.state() != v1::STUDY_STATE_DONE) {
    return Fail(kExitNegative,
                fmt::format("study {} {}: {}", LastPart(ended.name()), StateText(ended.state()),
                            ended.message().empty() ? "see autocfg trials" : ended.message()));
  }
  const auto answer = client.GetRecommendation(ended.name());
  if (!answer.ok()) return Fail(answer.status());
  service->Stop();
  if (std::string note = StopNote(*answer, request->spec.time_budget_s(), request->spec.max_trials()); !note.empty()) {
    Note(note);
    request->question.notes.push_back(std::move(note));
  }
  return Present(args, *answer, *request);
}

}  // namespace

void AddSearch(CLI::App& app, Verb& chosen, const std::string& program) {
  CLI::App* verb = app.add_subcommand("search", "find the fastest plan that fits, by measuring or by prediction alone");
  const auto args = std::make_shared<SearchArgs>();
  args->program = program;
  verb->add_option("--model", args->model, "a preset, or a model's JSON file");
  verb->add_option("--cluster", args->cluster, "local, local:1xRANKS, a preset with its size such as a100-80gb-sxm:64x8, or a file")->capture_default_str();
  verb->add_option("--global-batch", args->global_batch, "sequences per step");
  verb->add_option("--seq-len", args->seq_len, "tokens per sequence (default: the model's max_seq_len)");
  verb->add_option("--precision", args->precision, "fp32 (default on the CPU) or fp64; on GPUs bf16 (default) or fp32; of predicted and emulated clusters bf16 (default) and fp16 too");
  verb->add_option("--space", args->space,
                   "AXIS=V1,V2: only these values of tp, pp, dp, mbs, vpp, schedule, split, recompute, ...; repeatable")
      ->allow_extra_args(false);
  verb->add_flag("--exhaustive", args->exhaustive, "measure every plan that fits");
  verb->add_option("--max-trials", args->max_trials, "measure at most so many plans");
  verb->add_option("--time-budget", args->time_budget, "such as 90s, 10m, 1h");
  verb->add_option("--device", args->device, "auto (a GPU where one can be used, else the CPU), cpu, cuda, or paced (emulates --cluster on this machine)");
  verb->add_option("--db", args->database, "the database (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  verb->add_option("--output", args->output, "write the answer here as JSON, for train --input");
  verb->add_flag("--json", args->json, "the answer as JSON");
  verb->add_flag("--predict-only", args->predict_only, "measure nothing: the fastest by prediction, of any cluster");
  args->refused.AddValue(verb, "--coordinator", "leave it out: a search runs its own coordinator");
  verb->callback([args, &chosen] { chosen = [args] { return RunSearch(*args); }; });
}

}  // namespace autocfg
