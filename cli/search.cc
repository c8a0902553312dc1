// autocfg search: finds the fastest plan that fits, with the coordinator and a worker inside this process.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/console.h"
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
  std::string note;  // on what was assumed of the cluster; may be empty
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

// The cluster and the precision, which follow from what is to measure.
absl::Status LoadMachine(const SearchArgs& args, SearchRequest& request, Precision& precision) {
  SearchQuestion& question = request.question;
  auto cluster = question.device == "paced" ? LoadDescribedCluster(args.cluster) : LoadCluster(args.cluster);
  if (!cluster.ok()) return cluster.status();
  question.cluster = *std::move(cluster);
  if (IsDescribed(question)) {
    request.note = AssumeTypicalFigures(question.cluster);
  } else {
    cluster = MeasuredHere(args.cluster, question.cluster);
    if (!cluster.ok()) return cluster.status();
    question.cluster = *std::move(cluster);
  }
  const auto loaded =
      IsDescribed(question) ? LoadPredictedPrecision(args.precision, question.cluster) : LoadPrecision(args.precision);
  if (!loaded.ok()) return loaded.status();
  precision = *loaded;
  return absl::OkStatus();
}

absl::StatusOr<SearchRequest> LoadSearch(const SearchArgs& args) {
  SearchRequest request;
  SearchQuestion& question = request.question;
  if (auto status = CheckPredictOnly(args); !status.ok()) return status;
  const auto device = LoadDevice(args.device, /*dry=*/false);
  if (!device.ok()) return device.status();
  question.device = *device;
  question.predict_only = args.predict_only;
  if (args.model.empty())
    return absl::InvalidArgumentError("--model is missing; give a preset, such as gpt2-tiny, or a file");
  if (args.global_batch.empty())
    return absl::InvalidArgumentError("--global-batch is missing; give the sequences per step");
  const auto global_batch = ParseWhole("--global-batch", args.global_batch);
  if (!global_batch.ok()) return global_batch.status();
  std::int64_t seq_len = 0;
  if (!args.seq_len.empty()) {
    const auto parsed = ParseWhole("--seq-len", args.seq_len);
    if (!parsed.ok()) return parsed.status();
    seq_len = *parsed;
  }
  const auto model = LoadModel(args.model, seq_len);
  if (!model.ok()) return model.status();
  question.model = *model;
  if (auto status = args.predict_only ? CheckPredictable(*model) : CheckEngineSupports(*model); !status.ok())
    return Where(fmt::format("--model: {}", args.model), status, "model");
  Precision precision;
  if (auto status = LoadMachine(args, request, precision); !status.ok()) return status;
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
  spec.set_device(*device);
  // As the server will judge it, before there is a database.
  if (const auto problem = ParseSearchSpec(spec); !problem.ok()) return OfOption(problem.status(), args.cluster);
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

std::string NextCommand(const SearchArgs& args, const v1::Recommendation& answer,
                        const SearchQuestion& question) {
  if (!args.output.empty() && ReplaceablePath(args.output).ok() && question.cluster.local)
    return fmt::format("{} train --input {} --steps 10", args.program, ShellWord(args.output));
  const std::string plan = answer.best().plan_text();
  const std::string workload =
      fmt::format("--model {} --global-batch {} --seq-len {} --precision {}", ShellWord(args.model),
                  question.workload.global_batch, question.workload.seq_len, Name(question.workload.precision));
  if (question.predict_only && IsDescribed(question))
    return fmt::format("{} explain {} --cluster {} --plan {}", args.program, workload, ShellWord(args.cluster), plan);
  std::string how;
  if (question.device == "paced") how = fmt::format(" --device paced --cluster {}", ShellWord(args.cluster));
  // The plan is larger than this machine, whether a slice of it was measured or not.
  const auto& group = question.cluster.groups.front();
  if (!question.cluster.local && !IsDescribed(question) && RankCount(question.cluster) > group.gpus_per_node) how = " --slice 0,0";
  return fmt::format("{} train {} --plan {} --steps 10{}", args.program, workload, plan, how);
}

int Present(const SearchArgs& args, const v1::Recommendation& answer, const SearchQuestion& question) {
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
      args.json ? json->dump(2) + "\n" : SearchReport(answer, question, NextCommand(args, answer, question));
  if (const int code = Answer(text); code != kExitDone) return code;
  if (!found) return Fail(kExitNegative, fmt::format("nothing fits: {}", answer.nothing_fits()));
  return kExitDone;
}

int RunSearch(const SearchArgs& args) {
  if (auto status = args.refused.Check(); !status.ok()) return Fail(status);
  const auto request = LoadSearch(args);
  if (!request.ok()) return Fail(request.status());
  if (!args.output.empty()) {
    if (auto status = CheckWritable(args.output); !status.ok())
      return Fail(kExitUsage, fmt::format("--output: {}", Text(status)));
  }
  const auto database = DatabasePath(args.database);
  if (!database.ok()) return Fail(database.status());
  const SearchQuestion& question = request->question;
  const std::int64_t ranks = RankCount(question.cluster);
  if (std::string note = PrecisionNote(question.cluster); args.precision.empty() && IsDescribed(question) && !note.empty()) Note(note);
  if (!request->note.empty()) Note(request->note);
  const bool whole = question.cluster.local || question.device == "paced";
  // A plan of more ranks than a node has is measured by a slice.
  const std::int64_t slots = whole ? ranks : question.cluster.groups.front().gpus_per_node;
  if (!IsDescribed(question) && slots < ranks) {
    Note(fmt::format("this machine stands for one node of {} rank{}: of larger plans a slice is measured, one rank alone", slots,
                     slots == 1 ? "" : "s"));
  }
  if (const auto cores = static_cast<std::int64_t>(PhysicalCores().size()); !IsDescribed(question) && slots > cores && slots < ranks) {
    Note(fmt::format("{} rank{} run{} at once, one on each core, in place of a node's {}: what is timed is a rank, not ranks that share a core",
                     cores, cores == 1 ? "" : "s", cores == 1 ? "s" : "", slots));
  } else if (!IsDescribed(question) && slots > cores) {
    Note(fmt::format("{} ranks share {} core{}; plans are compared as loaded as that", slots, cores,
                     cores == 1 ? "" : "s"));
  }

  const Interrupt interrupt;
  auto started = EmbeddedService::Start(*database);
  if (!started.ok()) return Fail(kExitUsage, fmt::format("--db: {}", Text(started.status())));
  const auto service = *std::move(started);
  StudyClient client(service->address());
  const auto study = Begin(client, request->spec);
  if (!study.ok()) return Fail(study.status());
  if (question.device == "paced" || !IsDescribed(question)) {
    if (auto status = service->StartWorker(slots); !status.ok()) return Fail(status);
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
  return Present(args, *answer, question);
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
  verb->add_option("--precision", args->precision, "fp32 (default) or fp64; of predicted and emulated clusters bf16 (default) and fp16 too");
  verb->add_option("--space", args->space,
                   "AXIS=V1,V2: only these values of tp, pp, dp, mbs, vpp, schedule, split, recompute, ...; repeatable")
      ->allow_extra_args(false);
  verb->add_flag("--exhaustive", args->exhaustive, "measure every plan that fits");
  verb->add_option("--max-trials", args->max_trials, "measure at most so many plans");
  verb->add_option("--time-budget", args->time_budget, "such as 90s, 10m, 1h");
  verb->add_option("--device", args->device, "auto, cpu, or paced (emulates --cluster on this machine)");
  verb->add_option("--db", args->database, "the database (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  verb->add_option("--output", args->output, "write the answer here as JSON, for train --input");
  verb->add_flag("--json", args->json, "the answer as JSON");
  verb->add_flag("--predict-only", args->predict_only, "measure nothing: the fastest by prediction, of any cluster");
  args->refused.AddValue(verb, "--coordinator", "leave it out: a search runs its own coordinator");
  verb->callback([args, &chosen] { chosen = [args] { return RunSearch(*args); }; });
}

}  // namespace autocfg
