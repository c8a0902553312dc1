// autocfg explain: shows where the predicted time and memory of a plan go, for one plan or against a second
// one. Needs no hardware.
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/subject.h"
#include "cli/input/inputs.h"
#include "cli/input/option_values.h"
#include "cli/question/plan_question.h"
#include "cli/report/explanation.h"
#include "cli/terminal/console.h"
#include "cli/terminal/drawing.h"
#include "cli/verbs/verbs.h"

namespace autocfg::cli {
namespace {

struct ExplainArgs {
  PlanQuestionArgs question;
  std::string against;
  bool compares = false;  // --against is given
};

// Attributes an error in the second plan to --against.
absl::Status OfAgainst(const absl::Status& status) {
  const std::string subject = base::SubjectOf(status);
  return subject == "plan" || subject == "--plan" ? base::WithSubject("--against", status)
                                                  : base::Within("--against", status);
}

int RunExplain(const ExplainArgs& args) {
  auto question = LoadPlanQuestion(args.question);
  if (!question.ok()) return Fail(question.status());
  const auto explained = Explain(question->predictor, question->plan);
  if (!explained.ok()) return Fail(OfOption(explained.status()));
  const BarStyle style = StyleOf(STDOUT_FILENO);
  std::vector<std::string> notes = question->notes;
  notes.insert(notes.end(), explained->predicted.notes.begin(), explained->predicted.notes.end());
  if (!args.compares) {
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
  for (const auto& note : against->predicted.notes) notes.push_back("--against: " + note);
  const std::string said = NotesOf(explained->predicted, notes);
  if (const int code = Answer(ComparisonText(*explained, *against, question->about, style) + said);
      code != kExitDone)
    return code;
  return EndOf(explained->predicted);
}

}  // namespace

void AddExplain(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("explain", "where a plan's predicted time and memory go, or against a second plan");
  const auto args = std::make_shared<ExplainArgs>();
  AddPlanQuestion(verb, args->question);
  const CLI::Option* against =
      verb->add_option("--against", args->against, "a second plan, shown beside the first");
  verb->callback([args, against, &chosen] {
    args->compares = against->count() > 0;
    chosen = [args] { return RunExplain(*args); };
  });
}

}  // namespace autocfg::cli
