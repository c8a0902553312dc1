#include "cli/command_line.h"

#include <algorithm>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/process.h"
#include "base/os/process_limits.h"
#include "base/text.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

// Verbs that are reserved for a later version.
const std::vector<std::string>& UnsupportedVerbs() {
  static const std::vector<std::string> verbs = {"calibrate", "size", "export", "import", "report"};
  return verbs;
}

bool Contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Returns the names of the verbs, in the order in which they were added.
std::vector<std::string> VerbsOf(const CLI::App& app) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) verbs.push_back(verb->get_name());
  return verbs;
}

int UnknownVerb(const std::string& verb, const std::vector<std::string>& verbs) {
  if (Contains(UnsupportedVerbs(), verb)) {
    return Fail(kExitUsage,
                fmt::format("autocfg {} is not supported yet; expected {}", verb, base::ChoiceText(verbs)));
  }
  return Fail(kExitUsage, fmt::format("unknown verb '{}'; expected {}{}", verb, base::ChoiceText(verbs),
                                      base::DidYouMeanOfListed(verb, verbs)));
}

// Returns the subcommand named on the command line, or `app` if none is named.
const CLI::App* Named(const CLI::App& app) {
  const auto named = app.get_subcommands();
  return named.empty() ? &app : named.front();
}

// Returns the first option whose value is the empty string; empty if there is none.
std::string FirstGivenNothing(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_group().empty() && Contains(option->results(), "")) return option->get_name();
  }
  return "";
}

// Rewrites CLI11's messages for too many and too few values; returns other messages unchanged.
std::string InOurWords(const std::string& what) {
  const auto colon = what.find(": ");
  if (colon == std::string::npos) return what;
  const std::string_view problem = std::string_view(what).substr(colon + 2);
  if (problem.starts_with("At Most 1 required"))
    return fmt::format("{} is given more than once; give it once", what.substr(0, colon));
  if (problem.starts_with("1 required") && problem.ends_with("missing"))
    return fmt::format("{} has no value; give it one", what.substr(0, colon));
  return what;
}

int UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* verb = Named(app);
  const std::string name = verb == &app ? "autocfg" : "autocfg " + verb->get_name();
  const std::string where = verb == &app ? "" : verb->get_name() + ": ";
  std::string what = error.what();
  while (!what.empty() && (what.back() == '\n' || what.back() == '.' || what.back() == ' ')) what.pop_back();
  std::string hint;
  const auto extras = verb->remaining(true);
  if (!extras.empty()) {
    std::vector<std::string> options;
    for (const CLI::Option* option : verb->get_options()) {
      if (!option->get_group().empty()) options.push_back(option->get_name());
    }
    what = fmt::format("unexpected '{}'", extras.front());
    hint = base::DidYouMean(extras.front(), options);
  }
  return Fail(kExitUsage, fmt::format("{}{}{}; see {} --help", where, InOurWords(what), hint, name));
}

int Parse(int argc, char** argv);

// Runs `autocfg help [VERB]` as `autocfg [VERB] --help`.
int Help(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  words.erase(words.begin() + 1);
  std::string option = "--help";
  words.insert(words.begin() + std::min<std::ptrdiff_t>(2, argc - 1), option.data());
  return Parse(static_cast<int>(words.size()), words.data());
}

int Parse(int argc, char** argv) {
  CLI::App app("autocfg: the fastest way to split a model's training over a cluster, by measurement",
               "autocfg");
  app.set_version_flag("--version", fmt::format("autocfg {} (build {})", base::Version(), base::BuildId()));
  app.require_subcommand(0, 1);
  Verb chosen;
  AddSearch(app, chosen, ProgramName(argc > 0 ? argv[0] : ""));
  AddPredict(app, chosen);
  AddExplain(app, chosen);
  AddTrain(app, chosen);
  AddStudies(app, chosen);
  AddTrials(app, chosen);
  AddWorkers(app, chosen);
  AddWatch(app, chosen);
  AddCancel(app, chosen);
  AddDoctor(app, chosen);
  AddCompletion(app, chosen);
  AddVersion(app, chosen);
  if (argc > 1 && std::string_view(argv[1]) == "help") return Help(argc, argv);
  const std::vector<std::string> verbs = VerbsOf(app);
  if (argc > 1 && argv[1][0] != '-' && !Contains(verbs, argv[1])) return UnknownVerb(argv[1], verbs);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text, none;
    app.exit(success, text, none);
    return Answer(text.str());
  } catch (const CLI::ParseError& error) {
    return UsageError(app, error);
  }
  if (const std::string option = FirstGivenNothing(*Named(app)); !option.empty())
    return Fail(kExitUsage, fmt::format("{}: it is empty; give it a value", option));
  if (!chosen)
    return Fail(kExitUsage, fmt::format("no verb; give one of {} (autocfg --help)", base::ChoiceText(verbs)));
  return chosen();
}

}  // namespace

int Main(int argc, char** argv) {
  // Sends the log to standard error: standard output carries only the answer.
  base::SetUpLog("autocfg", base::LogLevel::kError);
  base::FailWritesBeyondFileSizeLimit();
  try {
    return Parse(argc, argv);
  } catch (const std::bad_alloc&) {
    return Fail(kExitNegative, "out of memory; give a smaller model or batch");
  } catch (const std::exception& error) {
    return Fail(kExitNegative, fmt::format("internal error: {}; please report it", error.what()));
  }
}

}  // namespace autocfg::cli
