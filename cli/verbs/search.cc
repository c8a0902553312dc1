// autocfg search: finds the fastest plan that fits. Uses a coordinator and a worker inside this process, or
// those of --coordinator.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/os/host.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/client/worker_client.h"
#include "cli/input/devices.h"
#include "cli/input/files.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/question/answer_notes.h"
#include "cli/question/exportable.h"
#include "cli/question/question_list.h"
#include "cli/question/search_request.h"
#include "cli/report/questions_report.h"
#include "cli/report/report.h"
#include "cli/report/training_report.h"
#include "cli/study/rejected_file.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/verbs/search_run.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "proto/answer/answer_json.h"
#include "search/plan/plan_text.h"
#include "search/question/prediction_json.h"
#include "search/text/cluster_json.h"
#include "search/text/engines.h"
#include "search/text/plan_json.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

std::string NextCommand(const SearchArgs& args, const SearchAnswer& answer, const SearchRequest& request) {
  const SearchQuestion& question = answer.question;
  if (args.service.remote() && !question.predict_only)
    return fmt::format("{} trials{} --study {}", args.program, AsWritten(args.service),
                       LastPart(answer.found.study()));
  std::string how;
  if (request.asked_device && Computes(*request.asked_device))
    how = fmt::format(" --device {}", Name(*request.asked_device));
  const bool own = question.cluster.engine.name == kOwnEngine;
  if (!args.output.empty() && ReplaceablePath(args.output).ok() && question.cluster.local && own)
    return fmt::format("{} train --input {} --steps 10{}", args.program, ShellWord(args.output), how);
  if (!args.output.empty() && !request.engine_format.empty()) {
    return fmt::format("{} export --input {} --to {}", args.program, ShellWord(args.output),
                       request.engine_format);
  }
  if (question.cluster.local && !own) return "";  // only its workers can run it
  if (!args.output.empty() && IsDescribed(question)) {
    if (const std::string framework = FrameworkFor(answer); !framework.empty()) {
      return fmt::format("{} export --input {} --to {}", args.program, ShellWord(args.output), framework);
    }
  }
  const std::string plan = WithShortSplit(answer.found.best().plan_text());
  const std::string workload =
      fmt::format("--model {} --global-batch {} --seq-len {} --precision {}{}", ShellWord(args.model),
                  question.workload.global_batch, question.workload.seq_len,
                  PrecisionText(question.workload.precision), OptimizerOptionsText(question.workload));
  // `explain` takes a cluster as its file describes it, with its own number of nodes.
  if (!args.nodes.empty()) return "";
  if (question.predict_only && IsDescribed(question))
    return fmt::format("{} explain {} --cluster {} --plan {}", args.program, workload,
                       ShellWord(args.cluster), plan);
  if (IsEmulated(question.device)) how = fmt::format(" --device paced --cluster {}", ShellWord(args.cluster));
  // The plan is larger than this machine, whether or not a slice of it was measured.
  const auto& group = question.cluster.groups.front();
  const std::int64_t at_once =
      request.spec.machine_ranks() > 0 ? request.spec.machine_ranks() : group.gpus_per_node;
  if (!question.cluster.local && !IsDescribed(question) && RankCount(question.cluster) > at_once)
    how += " --slice 0,0";
  return fmt::format("{} train {} --plan {} --steps 10{}", args.program, workload, plan, how);
}

// The answer has the rest.
std::string FirstClause(const std::string& reason) { return reason.substr(0, reason.find(';')); }

int Present(const SearchArgs& args, const v1::Recommendation& found, const SearchRequest& request) {
  SearchAnswer answer{request.question, found};
  const std::string why = NotExportable(answer);
  if (!why.empty()) answer.question.notes.push_back(why);
  auto json = AnswerJson(answer);
  if (!json.ok()) return Fail(kExitNegative, Text(json.status()));
  const auto training = TrainingOf(request.training, answer);
  if (request.training.Asked()) (*json)["training"] = training ? TrainingJson(*training) : nullptr;
  if (!args.output.empty()) {  // written even if nothing fits, so that no older plan stays in the file
    if (auto status = WriteFileAtomically(args.output, json->dump(2) + "\n"); !status.ok()) {
      const std::string where =
          request.question.kept
              ? fmt::format("; the answer is in study {} of the database", LastPart(found.study()))
              : "";
      return Fail(kExitNegative, fmt::format("--output: {}{}", Text(status), where));
    }
  }
  const std::string text = args.json ? json->dump(2) + "\n"
                                     : SearchReport(answer, NextCommand(args, answer, request),
                                                    TrainingText(training), args.pareto);
  if (const int code = Answer(text); code != kExitDone) return code;
  if (!why.empty()) Note(why);
  if (!found.nothing_fits().empty()) return Fail(kExitNegative, FirstClause(NoPlanText(found)));
  return kExitDone;
}

int PresentEnded(const SearchArgs& args, const Ended& ended, SearchRequest& request) {
  if (!ended.stopped.empty()) {
    if (ended.answer) {
      request.question.notes.push_back(fmt::format("the best so far: {}", ended.stopped));
      if (const int code = Present(args, *ended.answer, request); code != kExitDone) return code;
    }
    return Fail(ended.exit_code, ended.stopped);
  }
  if (!ended.answer) return ended.exit_code;
  const TrialEnds& trials = ended.trials;
  const auto see = [&](const std::string& trial) {
    return fmt::format("autocfg trials{} --study {} --log {}", AsWritten(args.service),
                       LastPart(ended.answer->study()), LastPart(trial));
  };
  if (trials.without_answer > 0) {
    request.question.notes.push_back(fmt::format("{}; see {}", TextOf(trials), see(trials.first_trial)));
    Note(request.question.notes.back());
  }
  if (trials.answered == 0 && trials.without_answer > 0) {
    const int code = Present(args, *ended.answer, request);
    return code != kExitDone
               ? code
               : Fail(kExitNegative,
                      fmt::format("no trial gave an answer, so the best plan is by prediction only; see {}",
                                  see(trials.first_trial)));
  }
  if (const std::string& left_out = ended.answer->left_out(); !left_out.empty()) {
    request.question.notes.push_back(left_out);
    Note(left_out);
  }
  std::vector<std::string> notes = IdleValueNotes(request.spec, *ended.answer);
  if (!ended.size_note.empty()) notes.push_back(ended.size_note);
  for (std::string& note : notes) {
    Note(note);
    request.question.notes.push_back(std::move(note));
  }
  if (std::string note =
          StopNote(*ended.answer, request.spec.time_budget_s(), request.spec.max_trials(), trials);
      !note.empty()) {
    if (ended.answer->counts().measured() == 0 && trials.without_answer == 0 && trials.did_not_fit > 0)
      note += fmt::format("; see {}", see(trials.first_unfit));
    Note(note);
    request.question.notes.push_back(std::move(note));
  }
  return Present(args, *ended.answer, request);
}

// Returns kExitDone if --output and --rejected can be written, and are not files that the question reads;
// prints an error otherwise.
int CheckWritten(const SearchArgs& args) {
  if (!args.output.empty()) {
    if (const auto status = CheckWritable(args.output); !status.ok())
      return Fail(kExitUsage, fmt::format("--output: {}", Text(status)));
  }
  if (const int code = CheckRejected(args.rejected, args.output); code != kExitDone) return code;
  std::vector<FileOfOption> read = FilesOf(args.service);
  read.push_back({"--model", args.model});
  read.push_back({"--cluster", args.cluster});
  if (!args.engines.empty()) {
    std::error_code unreadable;  // is an error of --engines, later
    for (std::filesystem::directory_iterator file(args.engines, unreadable), end; !unreadable && file != end;
         file.increment(unreadable))
      read.push_back({"--engines", file->path()});
  }
  for (const FileOfOption& written :
       {FileOfOption{"--output", args.output}, FileOfOption{"--rejected", args.rejected}}) {
    if (const auto status = CheckOtherFile(written, read); !status.ok()) return Fail(status);
  }
  return kExitDone;
}

// Returns what distinguishes the question. Of a wrong question, numbers that its options lack are empty.
Asked AskedOf(const SearchArgs& args, const absl::StatusOr<SearchRequest>& request) {
  Asked asked{.cluster = args.cluster};
  if (request.ok()) {
    asked.nodes = request->question.cluster.groups.front().nodes;
    asked.seq_len = request->question.workload.seq_len;
    asked.global_batch = request->question.workload.global_batch;
    return asked;
  }
  const auto number = [](const std::string& text) -> std::optional<std::int64_t> {
    const auto value = ParseWhole("", text);
    return value.ok() ? std::optional(*value) : std::nullopt;
  };
  asked.nodes = number(args.nodes);
  if (const auto name = ParseClusterName(args.cluster); !asked.nodes && name.ok() && name->nodes > 0)
    asked.nodes = name->nodes;
  asked.seq_len = number(args.seq_len);
  asked.global_batch = number(args.global_batch).value_or(0);
  return asked;
}

// Answers one question after the other. Bad input of any question ends the search before the first.
int SearchEach(const std::vector<SearchArgs>& questions, const WorkerPool* pool) {
  std::vector<absl::StatusOr<SearchRequest>> requests;
  TrainingTerms terms;  // the same of all
  bool any = false;
  for (const SearchArgs& args : questions) {
    const auto& request = requests.emplace_back(LoadSearch(args, pool));
    if (!request.ok() && !IsOfOneQuestion(request.status())) return Fail(request.status());
    if (!request.ok()) continue;
    any = true;
    terms = request->training;
  }
  if (!any) return Fail(requests.front().status());
  const SearchArgs& first = questions.front();
  for (const SearchArgs& args : questions) {
    if (const int code = CheckWritten(args); code != kExitDone) return code;
  }
  PrintedNotes notes;
  std::vector<AnsweredQuestion> answers;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    AnsweredQuestion& entry = answers.emplace_back(AnsweredQuestion{AskedOf(questions[i], requests[i])});
    if (!requests[i].ok()) {
      entry.wrong = Text(requests[i].status());
      continue;
    }
    Ended ended = Ask(questions[i], *requests[i], pool, notes);
    if (!ended.stopped.empty()) return Fail(ended.exit_code, ended.stopped);
    if (!ended.answer) return ended.exit_code;
    entry.answer = SearchAnswer{std::move(requests[i]->question), *std::move(ended.answer)};
    if (const std::string& left_out = entry.answer->found.left_out(); !left_out.empty()) {
      entry.answer->question.notes.push_back(left_out);
      notes.Say(left_out);
    }
  }
  const auto json = QuestionsJson(answers, terms);
  if (!json.ok()) return Fail(kExitNegative, Text(json.status()));
  if (!first.output.empty()) {
    if (auto status = WriteFileAtomically(first.output, json->dump(2) + "\n"); !status.ok())
      return Fail(kExitNegative, fmt::format("--output: {}", Text(status)));
  }
  if (const int code = Answer(first.json ? json->dump(2) + "\n" : QuestionsReport(answers, terms));
      code != kExitDone)
    return code;
  const auto has_plan = [](const AnsweredQuestion& entry) { return entry.HasPlan(); };
  if (std::any_of(answers.begin(), answers.end(), has_plan)) return kExitDone;
  return Fail(kExitNegative, fmt::format("none of the {} questions has a plan: {}", answers.size(),
                                         FirstClause(answers.front().Reason())));
}

int RunSearch(const SearchArgs& given) {
  if (auto status = CheckServiceOptions(given.service); !status.ok()) return Fail(status);
  const auto questions = QuestionsOf(given);
  if (!questions.ok()) return Fail(questions.status());
  std::optional<WorkerPool> pool;
  if (given.service.remote()) {
    auto listed = ListPool(given.service);
    if (!listed.ok()) return Fail(listed.status());
    pool = *std::move(listed);
  }
  if (questions->size() > 1 && !given.rejected.empty()) {
    return Fail(kExitUsage,
                fmt::format("--rejected: it is a file of one question, and the lists make {}; ask one",
                            questions->size()));
  }
  if (questions->size() > 1) return SearchEach(*questions, pool ? &*pool : nullptr);
  const SearchArgs& args = questions->front();
  auto request = LoadSearch(args, pool ? &*pool : nullptr);
  if (!request.ok()) return Fail(request.status());
  if (const int code = CheckWritten(args); code != kExitDone) return code;
  PrintedNotes notes;
  const Ended ended = Ask(args, *request, pool ? &*pool : nullptr, notes);
  return EndOfRejected(PresentEnded(args, ended, *request), ended.rejected);
}

}  // namespace

void AddSearch(CLI::App& app, Verb& chosen, const std::string& program) {
  CLI::App* verb =
      app.add_subcommand("search", "find the fastest plan that fits, by measuring or by prediction alone");
  const auto args = std::make_shared<SearchArgs>();
  args->program = program;
  verb->add_option("--model", args->model, "a preset, or a model's JSON file");
  verb->add_option("--cluster", args->cluster,
                   "local, local:1xRANKS, a preset with its size such as a100-80gb-sxm:64x8, or a file")
      ->capture_default_str();
  verb->add_option("--nodes", args->nodes, "nodes, in place of the number of --cluster");
  verb->add_option("--global-batch", args->global_batch, "sequences per step");
  verb->add_option("--seq-len", args->seq_len,
                   "tokens per sequence, such as 8192 or 8k (k is 1024; default: the model's max_seq_len)");
  verb->add_option(
      "--precision", args->precision,
      "fp32 (default on the CPU) or fp64; on GPUs bf16 (default) or fp32; for predicted and "
      "emulated clusters also bf16 (default) and fp16; with --predict-only also fp8, "
      "fp8_block, mxfp8 and nvfp4; types of states may follow: bf16:grads=bf16,moments=bf16,master=none");
  AddOptimizerChoice(verb, args->optimizer);
  verb->add_option(
          "--space", args->space,
          "AXIS=V1,V2: only these values of tp, pp, dp, mbs, vpp, schedule, split, recompute, ...; ranges "
          "as in \"tp<=4\" (also >=, <, >), mbs=1-4, recompute=full:*; repeatable")
      ->allow_extra_args(false);
  verb->footer(
      "With --predict-only, --cluster, --nodes, --global-batch and --seq-len take lists, such as --nodes "
      "1,2,4.\n"
      "Each combination is answered, at most " +
      fmt::to_string(kMostQuestions) + ".\n\nAxes of --space, which are the options of a plan:\n" +
      PlanOptionsHelp());
  verb->add_option(
      "--engine", args->engine,
      fmt::format("whose training step is predicted, with --predict-only: {}; or an engine of the "
                  "workers or of --engines, which measures; default {}",
                  base::ChoiceText(EngineNames()), kOwnEngine));
  verb->add_option("--engines", args->engines,
                   "directory of files *.json, each of which offers an engine on this machine");
  verb->add_option(
      "--memory-margin", args->memory_margin,
      "the share of a rank's memory that a plan must leave free to fit, such as 5% or 0.05; 0 for none "
      "(default: 5%, or the error that the engine's file says; 0 on local)");
  verb->add_flag("--exhaustive", args->exhaustive, "measure every plan that fits");
  verb->add_flag(
      "--fresh", args->fresh,
      "measure everything anew, also what earlier searches measured on the same device with the same "
      "build");
  verb->add_option("--max-trials", args->max_trials, "measure at most this many plans");
  verb->add_option("--time-budget", args->time_budget,
                   "such as 90s, 10m, 2h or 1h30m; a bare number is seconds");
  verb->add_option("--weight", args->weight,
                   "with --coordinator: the study's share of the workers among your studies; one of weight 2 "
                   "gets twice as much as one of 1 (default)");
  verb->add_option("--device", args->device,
                   "auto (a GPU where one can be used, else the CPU), cpu, cuda, or paced (emulates "
                   "--cluster on this machine)");
  verb->add_option("--output", args->output, "write the answer here as JSON, for train --input");
  verb->add_option("--rejected", args->rejected,
                   "write the plans that are illegal or do not fit here as CSV, each with its reason");
  verb->add_flag("--pareto", args->pareto,
                 "also print the plans that no other beats in both step time and memory");
  verb->add_flag("--json", args->json, "the answer as JSON");
  verb->add_flag("--predict-only", args->predict_only,
                 "measure nothing; find the fastest plan by prediction, for any cluster");
  verb->add_flag("--save", args->save,
                 "keep the study of --predict-only in the database; of local, one is kept anyway if op times "
                 "had to be measured");
  AddTrainingOptions(verb, args->training);
  AddServiceOptions(verb, args->service);
  verb->callback([args, &chosen] { chosen = [args] { return RunSearch(*args); }; });
}

}  // namespace autocfg::cli
