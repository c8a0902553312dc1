// autocfg predict: predicts the step time and memory of a plan on a described cluster, without hardware.
// Answers for one plan or for a file of requests.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/input/files.h"
#include "cli/input/line_reader.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/question/framework_input.h"
#include "cli/question/plan_advice.h"
#include "cli/question/plan_question.h"
#include "cli/report/prediction_report.h"
#include "cli/report/trace_file.h"
#include "cli/study/stored_question.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/question/prediction_json.h"
#include "search/text/chrome_trace.h"

namespace autocfg::cli {
namespace {

constexpr std::size_t kMostRequestBytes = std::size_t{1} << 20;

struct PredictArgs {
  PlanQuestionArgs question;
  std::string requests, trace, trace_ranks, study;
  InputArgs input;
  ServiceOptions service;
  bool many = false;  // --requests is given
  bool json = false;
};

// Returns an error answer if a request triggers an internal error, so that the other requests are still
// answered.
AnsweredLine AnswerSafely(const std::string& line, PredictorCache& predictors) {
  try {
    return AnswerPredictionLine(line, predictors);
  } catch (const std::exception& error) {
    return PredictionLineError(fmt::format("internal error: {}; please report it", error.what()));
  }
}

int RunRequests(const PredictArgs& args) {
  std::string given = FirstGiven(args.question);
  for (const auto& [name, value] : {std::pair("--trace", &args.trace),
                                    {"--trace-ranks", &args.trace_ranks},
                                    {"--input", &args.input.file},
                                    {"--from", &args.input.from},
                                    {"--vocab", &args.input.vocab},
                                    {"--study", &args.study}}) {
    if (given.empty() && !value->empty()) given = name;
  }
  if (!given.empty())
    return Fail(
        kExitUsage,
        fmt::format(
            "--requests and {} exclude each other, since each request names its own; leave one of them out",
            given));
  const auto reader = LineReader::Open(args.requests, kMostRequestBytes);
  if (!reader.ok()) return Fail(kExitUsage, fmt::format("--requests: {}", Text(reader.status())));
  PredictorCache predictors;
  std::int64_t answered = 0, wrong = 0;
  std::string line, text;
  for (;;) {
    const auto got = (*reader)->Next(line);
    if (!got.ok()) return Fail(kExitUsage, fmt::format("--requests: {}", Text(got.status())));
    if (*got == LineReader::Got::kEnd) break;
    const AnsweredLine answer =
        *got == LineReader::Got::kTooLong
            ? PredictionLineError(
                  fmt::format("request: the line is longer than {} bytes; shorten it", kMostRequestBytes))
            : AnswerSafely(line, predictors);
    ++answered;
    if (!answer.ok) ++wrong;
    text += answer.text;
    text += '\n';
    if (!(*reader)->HasNext() || text.size() > (1 << 16)) {
      if (const int code = Answer(text); code != kExitDone) return code;
      text.clear();
    }
  }
  if (const int code = Answer(text); code != kExitDone) return code;
  if (wrong > 0) Note(fmt::format("{} of {} requests were answered with an error", wrong, answered));
  return kExitDone;
}

absl::StatusOr<InputQuestion> StoredOf(const PredictArgs& args, PlanQuestionArgs& asked) {
  if (!args.input.file.empty()) return LoadInputQuestion(args.input, asked);
  AUTOCFG_ASSIGN_OR_RETURN(const auto reader, StudyReader::Open(args.service));
  AUTOCFG_ASSIGN_OR_RETURN(auto question, QuestionOfStudy(*reader, args.study));
  question.remote = args.service.remote();
  if (!question.remote) asked.study = args.study;
  return InputQuestion{.question = std::move(question)};
}

// Fails if the file of --trace is one that is read.
absl::Status CheckTraceStays(const PredictArgs& args) {
  if (args.trace == kTraceToOutput) return absl::OkStatus();
  std::vector<FileOfOption> read = FilesOf(args.service);
  for (const auto& [option, file] : {std::pair("--input", &args.input.file),
                                     {"--model", &args.question.model},
                                     {"--cluster", &args.question.cluster}})
    read.push_back({option, *file});
  return CheckOtherFile({"--trace", args.trace}, read);
}

int RunPredict(const PredictArgs& args) {
  if (args.many) return RunRequests(args);
  if (!args.input.file.empty() && !args.study.empty())
    return Fail(kExitUsage, "--input and --study exclude each other; leave one of them out");
  if (args.study.empty() && args.service.remote())
    return Fail(kExitUsage, "--coordinator is for a stored study; name one with --study");
  if (absl::Status status = CheckFrameworkOptions(args.input); !status.ok()) return Fail(status);
  std::optional<InputQuestion> known;
  PlanQuestionArgs asked = args.question;
  if (!args.input.file.empty() || !args.study.empty()) {
    auto stored = StoredOf(args, asked);
    if (!stored.ok()) return Fail(stored.status());
    known = *std::move(stored);
    StayOnThisMachine(known->question, asked);
  }
  if (args.study.empty() && !args.service.database.empty() && !IsOfThisMachine(asked)) {
    return Fail(kExitUsage, "--db is for a stored study or this machine; give --study or --cluster local");
  }
  asked.database = args.service.database;
  auto question = LoadPlanQuestion(asked, known ? &known->question : nullptr);
  if (!question.ok()) return Fail(question.status());
  if (!args.trace.empty()) {
    if (auto status = CheckTrace(args.trace); !status.ok())
      return Fail(kExitUsage, fmt::format("--trace: {}", Text(status)));
    if (auto status = CheckTraceStays(args); !status.ok()) return Fail(status);
  } else if (!args.trace_ranks.empty()) {
    return Fail(kExitUsage, "--trace-ranks: no trace is asked for; give --trace FILE too");
  }
  const bool to_output = args.trace == kTraceToOutput;
  if (to_output && args.json) {
    return Fail(
        kExitUsage,
        "--trace: - is standard output, which --json takes; give --trace a file, or leave out --json");
  }
  const auto traced = LoadTraceRanks(args.trace_ranks, RankCount(question->plan));
  if (!traced.ok()) return Fail(traced.status());
  auto predicted = question->predictor.Predict(question->plan);
  if (!predicted.ok()) return Fail(OfOption(predicted.status()));
  for (const auto& note : question->notes) predicted->notes.push_back(note);
  if (!args.trace.empty()) {
    const auto trace = question->predictor.TraceOf(question->plan);
    if (!trace.ok()) return Fail(Where("--trace", trace.status()));
    const TraceOrigin origin{.kind = TraceKind::kPredicted,
                             .device = std::nullopt,
                             .cluster = question->about.cluster.name,
                             .slice = std::nullopt};
    std::vector<TraceRow> rows = trace->step.rows;
    if (const std::string note = KeepTraceRanks(*traced, question->plan, rows); !note.empty()) Note(note);
    if (auto status = WriteTrace(args.trace, trace->program, rows, origin); !status.ok())
      return Fail(kExitNegative, fmt::format("--trace: {}", Text(status)));
  }
  if (known && known->framework && !args.json) {
    if (const auto change = BestChange(*question, *predicted)) {
      const PlanQuestionArgs& given = args.question;
      // import asks about the file's own plan and batch, by its framework's engine.
      const bool of_file =
          given.plan.empty() && given.global_batch.empty() && given.precision.empty() && given.engine.empty();
      predicted->notes.push_back(fmt::format("{} would take {} (predicted){}", change->change,
                                             base::SecondsText(change->predicted.prediction.step_time_s),
                                             of_file ? "; autocfg import names the lines to change" : ""));
    }
  }
  const std::string notes = NotesOf(*predicted, predicted->notes);
  std::string text;
  if (args.json) {
    text = PlanPredictionJson(*predicted).dump(2) + "\n";
  } else {
    text = PredictionReport(*predicted, question->about) + notes;
  }
  if (to_output) {
    fmt::print(stderr, "{}", text);
  } else if (const int code = Answer(text); code != kExitDone) {
    return code;
  }
  return EndOf(*predicted);
}

}  // namespace

void AddPredict(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand(
      "predict", "predict a plan's step time and memory on a described cluster, without hardware");
  const auto args = std::make_shared<PredictArgs>();
  AddPlanQuestion(verb, args->question);
  const CLI::Option* requests =
      verb->add_option("--requests", args->requests,
                       "instead of these options: a file of requests, one JSON object "
                       "per line (- for standard input); one answer per line");
  verb->add_option(
      "--input", args->input.file,
      "the file of a search: its question and best plan, where the options above name nothing else; or a "
      "training framework's file or launch script");
  AddFrameworkOptions(verb, args->input);
  verb->add_option("--study", args->study,
                   "a study (3) or a trial (3/trials/7): the same of its best plan, or of that trial's");
  AddServiceOptions(verb, args->service);
  verb->add_option("--trace", args->trace,
                   "write the timeline of the step here (Chrome trace, for Perfetto); - for standard output, "
                   "the answer then goes to standard error");
  verb->add_option("--trace-ranks", args->trace_ranks,
                   "trace these ranks, such as 0,8, or all (default: all if the file stays below 20 MB, else "
                   "one of each pipeline stage)");
  verb->add_flag("--json", args->json, "the answer as JSON");
  verb->callback([args, requests, &chosen] {
    args->many = requests->count() > 0;
    chosen = [args] { return RunPredict(*args); };
  });
}

}  // namespace autocfg::cli
