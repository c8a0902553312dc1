#include "cli/command_line.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/process.h"
#include "base/os/process_limits.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/manual/help_formatter.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

bool Contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Returns the names of the verbs, in the order in which they were added.
std::vector<std::string> VerbsOf(const CLI::App& app) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) verbs.push_back(verb->get_name());
  return verbs;
}

// `above`: the verb that has `verbs` below it and a blank, or nothing.
int UnknownVerb(const std::string& above, const std::string& verb, const std::vector<std::string>& verbs) {
  return Fail(kExitUsage, fmt::format("unknown verb '{}{}'; expected {}{}", above, verb,
                                      base::ChoiceText(verbs), base::DidYouMeanOfListed(verb, verbs)));
}

// Checks the words before the first option, as far as they must be verbs. Returns kExitDone, or prints an
// error.
int CheckVerbs(const CLI::App& app, int argc, char** argv) {
  const CLI::App* level = &app;
  std::string above;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const std::vector<std::string> verbs = VerbsOf(*level);
    if (verbs.empty()) break;
    if (!Contains(verbs, argv[i])) return UnknownVerb(above, argv[i], verbs);
    level = level->get_subcommand(argv[i]);
    above += std::string(argv[i]) + " ";
  }
  return kExitDone;
}

// Returns the verb that the command line names, the lowest one of several; `app` if it names none.
const CLI::App* Named(const CLI::App& app) {
  const CLI::App* verb = &app;
  for (auto below = verb->get_subcommands(); !below.empty(); below = verb->get_subcommands())
    verb = below.front();
  return verb;
}

// Returns "search" or "db backup"; "" for `app` itself.
std::string PathOf(const CLI::App* verb, const CLI::App& app) {
  if (verb == &app) return "";
  const std::string above = PathOf(verb->get_parent(), app);
  return above.empty() ? verb->get_name() : above + " " + verb->get_name();
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

// Returns where the number of GPUs is given, if the user looked for an option of its own. `words`: those that
// were not understood, the option first.
std::string GpusHint(const CLI::App& verb, const std::vector<std::string>& words) {
  static const std::vector<std::string> kLookedFor = {"--gpus",  "--num-gpus",   "--ngpus", "--gpus-per-node",
                                                      "--ranks", "--world-size", "--nproc"};
  const std::size_t sign = words.front().find('=');
  if (!Contains(kLookedFor, words.front().substr(0, sign))) return "";
  const std::string number = sign != std::string::npos ? words.front().substr(sign + 1)
                             : words.size() > 1        ? words[1]
                                                       : "";
  const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
  const std::string gpus = is_number ? number : "8";
  if (verb.get_name() == "train")
    return fmt::format("; the GPUs of a run are tp*pp*dp of --plan, such as --plan dp={}", gpus);
  if (verb.get_option_no_throw("--cluster") == nullptr) return "";
  const bool nodes = verb.get_option_no_throw("--nodes") != nullptr;
  return fmt::format(
      "; GPUs are given by --cluster: local:1x{0} for this machine's, or a preset with nodes and "
      "GPUs of each, such as h100-sxm:1x{0}{1}",
      gpus, nodes ? " (--nodes replaces the nodes)" : "");
}

int UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* verb = Named(app);
  const std::string path = PathOf(verb, app);
  const std::string name = path.empty() ? "autocfg" : "autocfg " + path;
  const std::string where = path.empty() ? "" : path + ": ";
  std::string what = error.what();
  while (!what.empty() && (what.back() == '\n' || what.back() == '.' || what.back() == ' ')) what.pop_back();
  std::string hint;
  const auto extras = verb->remaining(true);
  if (!extras.empty()) {
    std::vector<std::string> options;
    for (const CLI::Option* option : verb->get_options()) {
      const bool given = option->get_positional() && option->count() > 0;  // the word before
      if (!option->get_group().empty() && !given) options.push_back(option->get_name());
    }
    what = fmt::format("unexpected '{}'", extras.front());
    hint = GpusHint(*verb, extras);
    if (hint.empty())
      hint = Contains(options, "--study") && ParseStudyId(extras.front()).ok()
                 ? fmt::format("; did you mean --study {}?", extras.front())
                 : base::DidYouMean(extras.front(), options);
  }
  return Fail(kExitUsage, fmt::format("{}{}{}; see {} --help", where, InOurWords(what), hint, name));
}

int Parse(int argc, char** argv);

// Runs `autocfg help [VERB]` as `autocfg [VERB] --help`.
int Help(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  words.erase(words.begin() + 1);
  std::string option = "--help";
  words.push_back(option.data());
  return Parse(static_cast<int>(words.size()), words.data());
}

int Parse(int argc, char** argv) {
  CLI::App app("autocfg: the fastest way to split a model's training over a cluster, by measurement",
               "autocfg");
  app.set_version_flag("--version", fmt::format("autocfg {} (build {})", base::Version(), base::BuildId()));
  app.require_subcommand(0, 1);
  app.formatter(std::make_shared<HelpFormatter>());  // that of the verbs too
  Verb chosen;
  AddSearch(app, chosen, ProgramName(argc > 0 ? argv[0] : ""));
  AddPredict(app, chosen);
  AddExplain(app, chosen);
  AddCalibrate(app, chosen);
  AddSize(app, chosen, ProgramName(argc > 0 ? argv[0] : ""));
  AddTrain(app, chosen);
  AddStudies(app, chosen);
  AddTrials(app, chosen);
  AddWorkers(app, chosen);
  AddWatch(app, chosen);
  AddPause(app, chosen);
  AddResume(app, chosen);
  AddUpdate(app, chosen);
  AddCancel(app, chosen);
  AddDelete(app, chosen);
  AddExport(app, chosen);
  AddImport(app, chosen);
  AddModels(app, chosen);
  AddClusters(app, chosen);
  AddReport(app, chosen);
  AddDb(app, chosen);
  AddToken(app, chosen);
  AddDoctor(app, chosen);
  AddCompletion(app, chosen);
  AddMan(app, chosen);
  AddVersion(app, chosen);
  if (argc > 1 && std::string_view(argv[1]) == "help") return Help(argc, argv);
  if (const int code = CheckVerbs(app, argc, argv); code != kExitDone) return code;
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
  if (!chosen) {
    const std::string verb = PathOf(Named(app), app);
    return Fail(kExitUsage,
                fmt::format("{}no verb; give one of {} (autocfg{} --help)", verb.empty() ? "" : verb + ": ",
                            base::ChoiceText(VerbsOf(*Named(app))), verb.empty() ? "" : " " + verb));
  }
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
