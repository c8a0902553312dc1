// autocfg explain: shows where the predicted time and memory of a plan go, for one plan or against a second
// one; or, of a plan that a search measured, the measured parts of a step against the predicted ones. Needs
// no hardware.
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/input/files.h"
#include "cli/input/inputs.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/question/framework_input.h"
#include "cli/question/plan_question.h"
#include "cli/report/evidence.h"
#include "cli/report/explanation.h"
#include "cli/study/stored_question.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/terminal/drawing.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/question/prediction_json.h"

namespace autocfg::cli {
namespace {

struct ExplainArgs {
  PlanQuestionArgs question;
  std::string against;
  bool compares = false;  // --against is given
  InputArgs input;
  std::string study;
  bool of_input = false, of_study = false;  // --input, --study is given
  bool json = false;
  ServiceOptions service;
};

// Returns the evidence for the trial that --study names, or for the best plan of a study.
absl::StatusOr<v1::Candidate> EvidenceOfStudy(const ExplainArgs& args) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto reader, StudyReader::Open(args.service));
  const std::size_t slash = args.study.find(kTrialsPart);
  AUTOCFG_ASSIGN_OR_RETURN(const auto study, reader->StudyNamed(args.study.substr(0, slash)));
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyId(study.name()));
  AUTOCFG_ASSIGN_OR_RETURN(const auto trials, reader->Trials(id));
  if (slash == std::string::npos) return EvidenceOfBest(study, trials);
  const auto trial = TrialNamed(*reader, study, args.study);
  return trial.ok() ? EvidenceOf(*trial) : trial.status();
}

absl::StatusOr<v1::Candidate> EvidenceOfInput(const std::string& path) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto file, LoadAnswerFile(path));
  auto evidence = EvidenceOf(file);
  if (!evidence.ok()) return Where(fmt::format("--input: {}", path), evidence.status());
  return evidence;
}

// Names the first two options that exclude each other; empty if none do.
std::string Excluded(const ExplainArgs& args) {
  const std::string_view of = args.of_input ? "--input" : "--study";
  std::string other;
  if (args.of_input && args.of_study) other = "--study";
  if (other.empty() && args.of_input && args.service.remote()) other = "--coordinator";
  if (other.empty() && args.of_input && !args.service.database.empty()) other = "--db";
  if (other.empty()) return "";
  return fmt::format("{} and {} exclude each other; leave one of them out", of, other);
}

// Attributes an error in the second plan to --against.
absl::Status OfAgainst(const absl::Status& status) {
  const std::string subject = base::SubjectOf(status);
  return subject == "plan" || subject == "--plan" ? base::WithSubject("--against", status)
                                                  : base::Within("--against", status);
}

// Returns the prediction with the notes on the question beside its own.
PlanPrediction WithNotes(const Explanation& explained, const PlanQuestion& question) {
  PlanPrediction predicted = explained.predicted;
  predicted.notes.insert(predicted.notes.end(), question.notes.begin(), question.notes.end());
  return predicted;
}

// Answers with the JSON. The exit status is that of the plan.
int AnswerJson(const nlohmann::ordered_json& json, const Explanation& explained) {
  if (const int code = Answer(json.dump(2) + "\n"); code != kExitDone) return code;
  return EndOf(explained.predicted);
}

int ExplainPrediction(const ExplainArgs& args, PlanQuestionArgs asked, const BestPlan* known) {
  asked.database = args.service.database;
  auto question = LoadPlanQuestion(asked, known);
  if (!question.ok()) return Fail(question.status());
  const auto explained = Explain(question->predictor, question->plan);
  if (!explained.ok()) return Fail(OfOption(explained.status()));
  const BarStyle style = StyleOf(STDOUT_FILENO);
  std::vector<std::string> notes = question->notes;
  notes.insert(notes.end(), explained->predicted.notes.begin(), explained->predicted.notes.end());
  if (!args.compares) {
    if (args.json) return AnswerJson(PlanPredictionJson(WithNotes(*explained, *question)), *explained);
    const std::string said = NotesOf(explained->predicted, notes);
    if (const int code = Answer(ExplanationText(*explained, question->about, style) + said);
        code != kExitDone)
      return code;
    return EndOf(explained->predicted);
  }
  const auto plan = LoadPlan(args.against);
  if (!plan.ok()) return Fail(OfAgainst(plan.status()));
  const auto against = Explain(question->predictor, *plan);
  if (!against.ok()) return Fail(OfAgainst(against.status()));
  if (args.json) {
    return AnswerJson(ComparisonJson(WithNotes(*explained, *question), WithNotes(*against, *question)),
                      *explained);
  }
  for (const auto& note : against->predicted.notes) notes.push_back("--against: " + note);
  const std::string said = NotesOf(explained->predicted, notes);
  if (const int code = Answer(ComparisonText(*explained, *against, question->about, style) + said);
      code != kExitDone)
    return code;
  return EndOf(explained->predicted);
}

absl::StatusOr<BestPlan> StoredQuestion(const ExplainArgs& args, PlanQuestionArgs& asked) {
  if (args.of_input) {
    AUTOCFG_ASSIGN_OR_RETURN(auto input, LoadInputQuestion(args.input, asked));
    return std::move(input.question);
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto reader, StudyReader::Open(args.service));
  auto question = QuestionOfStudy(*reader, args.study);
  if (question.ok()) question->remote = args.service.remote();
  if (!args.service.remote()) asked.study = args.study;
  return question;
}

// Explains the prediction of what --input or --study names, with options in place of its parts.
int ExplainStored(const ExplainArgs& args) {
  PlanQuestionArgs asked = args.question;
  const auto known = StoredQuestion(args, asked);
  if (!known.ok()) return Fail(known.status());
  StayOnThisMachine(*known, asked);
  return ExplainPrediction(args, asked, &*known);
}

int RunEvidence(const ExplainArgs& args) {
  if (const std::string excluded = Excluded(args); !excluded.empty()) return Fail(kExitUsage, excluded);
  absl::StatusOr<bool> of_framework = false;
  if (args.of_input) of_framework = IsFrameworkInput(args.input.file, args.input.from);
  if (!of_framework.ok()) return Fail(Where("--input", of_framework.status()));
  // Options in place of parts of the question, and a second plan, ask for predictions. A framework's file has
  // no measurements.
  if (*of_framework || args.compares || args.json || !args.input.vocab.empty() ||
      !FirstGiven(args.question).empty())
    return ExplainStored(args);
  const auto evidence = args.of_input ? EvidenceOfInput(args.input.file) : EvidenceOfStudy(args);
  if (!evidence.ok()) {
    // What was not measured is explained as it is predicted, where it can be.
    if (!absl::IsFailedPrecondition(evidence.status())) return Fail(evidence.status());
    PlanQuestionArgs asked = args.question;
    const auto known = StoredQuestion(args, asked);
    if (!known.ok()) return Fail(evidence.status());
    if (!known->local) return ExplainPrediction(args, asked, &*known);
    if (known->remote) return Fail(evidence.status());
    return Fail(kExitUsage, fmt::format("{}; --cluster local explains its prediction, by the op times that "
                                        "the database keeps",
                                        Text(evidence.status())));
  }
  return Answer(EvidenceText(*evidence, StyleOf(STDOUT_FILENO)));
}

int RunExplain(const ExplainArgs& args) {
  if (absl::Status status = CheckFrameworkOptions(args.input); !status.ok()) return Fail(status);
  if (args.of_input || args.of_study) return RunEvidence(args);
  const bool of_database = !args.service.database.empty() && !IsOfThisMachine(args.question);
  if (args.service.remote() || of_database) {
    return Fail(kExitUsage,
                args.service.remote()
                    ? "--coordinator is for a stored study; name one with --study"
                    : "--db is for a stored study or this machine; give --study or --cluster local");
  }
  return ExplainPrediction(args, args.question, nullptr);
}

}  // namespace

void AddExplain(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("explain", "where a plan's predicted time and memory go, or against a second plan");
  const auto args = std::make_shared<ExplainArgs>();
  AddPlanQuestion(verb, args->question);
  const CLI::Option* against =
      verb->add_option("--against", args->against, "a second plan, shown beside the first");
  verb->add_flag("--json", args->json,
                 "the predictions as JSON; with --against, also the difference by part of a step");
  const CLI::Option* input = verb->add_option(
      "--input", args->input.file,
      "the file of a search, or a framework's, as for import; a search's alone shows the measured parts of a "
      "step of its best plan against the "
      "predicted ones. With options above in place of its parts, --against or --json, or if nothing was "
      "measured: the prediction");
  AddFrameworkOptions(verb, args->input);
  const CLI::Option* study = verb->add_option("--study", args->study,
                                              "a study (3) or a trial (3/trials/7), which may also stand "
                                              "alone; shows the same of its best plan, or of that trial");
  AddServiceOptions(verb, args->service);
  verb->callback([args, against, input, study, &chosen] {
    args->compares = against->count() > 0;
    args->of_input = input->count() > 0;
    args->of_study = study->count() > 0;
    // A word without a file, whose script would take it, is the study.
    std::vector<std::string>& words = args->input.arguments;
    if (!args->of_input && !args->of_study && words.size() == 1) {
      args->study = std::exchange(words, {}).front();
      args->of_study = true;
    }
    chosen = [args] { return RunExplain(*args); };
  });
}

}  // namespace autocfg::cli
