// A training framework's file as the question of a prediction: read by search/frameworks, with the model and
// the ranks that options name. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/question/plan_question.h"
#include "proto/answer/answer_file.h"
#include "search/frameworks/framework_file.h"

namespace autocfg::cli {

struct FrameworkInputArgs {
  std::string file, from, model, cluster, ranks, vocab, seq_len;
  std::string plan = {};                      // options that the file leaves open: "recompute=full"
  std::vector<std::string> environment = {};  // variables of a script: "NNODES=4"
  std::vector<std::string> arguments = {};    // behind the script or the file
};

struct FrameworkInput {
  FrameworkRun run;
  ReadingOptions options;  // with which it was read
};

// Returns what --from takes: the frameworks, and "log" for a log of any of them.
std::vector<std::string> SourceNames();

// Reads the file. Without `from`, its form says the framework. Errors name an option, or file and line.
absl::StatusOr<FrameworkInput> LoadFrameworkInput(const FrameworkInputArgs& args);

// Returns whether the file is a framework's, by `from` or by its form; an error if it cannot be read, or if
// `from` names none.
absl::StatusOr<bool> IsFrameworkInput(const std::string& file, const std::string& from);

// Returns the question that the run asks; its cluster is not described.
BestPlan QuestionOf(const FrameworkRun& run);

// --input, and the options for a framework's file beside it.
struct InputArgs {
  std::string file, from, vocab;
  std::vector<std::string> environment = {}, arguments = {};  // as of FrameworkInputArgs
};

// Adds --from, --vocab, --env and what is behind --.
void AddFrameworkOptions(CLI::App* verb, InputArgs& args);

// Fails if one of them is given without --input.
absl::Status CheckFrameworkOptions(const InputArgs& args);

// The question of --input: of a search's answer, or of a framework's file.
struct InputQuestion {
  BestPlan question;
  bool framework = false;  // the file is one's
};

// Reads the file. `asked`: the options beside it; it gets the file's name if that is a search's. Of a
// framework's file, `asked` gets its engine unless it names another; the file's notes are printed. Notes that
// --plan stands in place of the file's plan. Fails if --vocab is given and the file is a search's.
absl::StatusOr<InputQuestion> LoadInputQuestion(const InputArgs& input, PlanQuestionArgs& asked);

}  // namespace autocfg::cli
