#include "cli/question/framework_input.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/input/files.h"
#include "cli/input/inputs.h"
#include "cli/input/option_values.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "search/frameworks/batch_script.h"
#include "search/frameworks/said_options.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

constexpr std::string_view kLog = "log";

absl::Status CheckFrom(const std::string& from) {
  const std::vector<std::string> names = SourceNames();
  if (from.empty() || std::find(names.begin(), names.end(), from) != names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("--from: unknown framework '{}'; expected {}",
                                                base::Printable(from), base::ChoiceText(names)));
}

// A framework's file.
struct Source {
  std::string name;       // of the file that was read, for messages
  std::string framework;  // empty: the file has the form of none
  std::string text;
  std::vector<std::string> notes = {};
  NamingCommand command = {};          // of the script that names the file; it counts in place of the file
  std::vector<LaunchFile> files = {};  // further ones of the run
};

bool NamesNoOption(const LaunchWord& word) {
  return !word.text.empty() && !word.text.starts_with('-') && word.text.find('=') == std::string::npos;
}

// Takes the further files of the run, which are the first words of the launch. Without a framework, it is
// that of one of them.
void TakeFurtherFiles(const std::string& from, const LaunchWords& launch, Source& source) {
  std::vector<LaunchFile> files;
  std::string framework = source.framework;
  for (const LaunchWord& word : launch.arguments) {
    if (!NamesNoOption(word)) break;
    auto text = ReadTextFile(word.text);
    if (!text.ok()) break;
    if (framework.empty()) framework = FrameworkOf(*text);
    files.push_back({.name = std::filesystem::path(word.text).filename().string(), .text = *std::move(text)});
  }
  if (!from.empty()) framework = from;
  if (files.empty() || !TakesSeveralFiles(framework)) return;
  source.framework = framework;
  source.files = std::move(files);
}

bool IsScript(const std::string& name, const std::string& text) {
  return text.starts_with("#!") || name.ends_with(".sh") || name.ends_with(".bash") ||
         name.ends_with(".sbatch") || name.ends_with(".slurm");
}

// Takes the file of settings that the script names, from the place that it says or from beside the script.
// Does nothing if the script names none.
absl::Status FollowScript(const std::string& script, const std::string& from, const LaunchWords& launch,
                          Source& source) {
  const std::vector<NamedFile> named = FilesNamedBy(source.text);
  std::optional<Source> found;
  for (const NamedFile& file : named) {
    const std::filesystem::path path = file.path, directory = std::filesystem::path(script).parent_path();
    for (const std::filesystem::path& place : {directory / path, directory / path.filename()}) {
      const auto text = ReadTextFile(place.string());
      if (!text.ok()) continue;
      const std::string framework(FrameworkOf(*text));
      if (framework.empty() || (!from.empty() && framework != from)) continue;
      const std::string name = place.filename().string();
      if (found && found->text != *text) {
        return absl::InvalidArgumentError(
            fmt::format("{}: it names {} and {}; give the one that it trains with",
                        base::Printable(source.name), base::Printable(found->name), base::Printable(name)));
      }
      const std::string note = fmt::format("{} names {}, which was read in its place",
                                           base::Printable(source.name), base::Printable(name));
      found = Source{.name = name, .framework = framework, .text = *text, .notes = {note}};
      break;
    }
  }
  if (!found && !named.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}:{}: the settings stand in {}, which is no framework's file beside the script; give "
                    "that file",
                    base::Printable(source.name), named.front().line, base::Printable(named.front().path)));
  }
  if (!found) return absl::OkStatus();
  // A script of another language names the file too.
  auto command = CommandThatNames(found->name, source.name, source.text, launch);
  if (command.ok()) {
    found->command = *std::move(command);
  } else {
    found->notes.push_back(
        fmt::format("{}; what its command adds to {} was not read", Text(command.status()), found->name));
  }
  source = *std::move(found);
  return absl::OkStatus();
}

// Returns the text of a file that a script names, from the place that it says or from beside the script.
std::optional<std::string> FileBeside(const std::filesystem::path& script,
                                      const std::filesystem::path& named) {
  const std::filesystem::path directory = script.parent_path();
  if (!named.has_filename()) return std::nullopt;
  for (const std::filesystem::path& place : {directory / named, directory / named.filename()}) {
    auto text = ReadTextFile(place.string());
    if (text.ok()) return *std::move(text);
  }
  return std::nullopt;
}

absl::StatusOr<LaunchWords> LaunchOf(const FrameworkInputArgs& args) {
  LaunchWords launch;
  launch.beside = [script = std::filesystem::path(args.file)](const std::string& named) {
    return FileBeside(script, named);
  };
  for (const std::string& word : args.arguments) launch.arguments.push_back({word});
  for (const std::string& variable : args.environment) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          fmt::format("--env: '{}' sets no variable; give NAME=VALUE", base::Printable(variable)));
    }
    launch.variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return launch;
}

absl::StatusOr<Source> LoadSource(const std::string& file, const std::string& from,
                                  const LaunchWords& launch) {
  AUTOCFG_RETURN_IF_ERROR(CheckFrom(from));
  auto text = ReadTextFile(file);
  if (!text.ok()) return text.status();
  Source source{.name = std::filesystem::path(file).filename().string(),
                .framework = std::string(FrameworkOf(*text)),
                .text = *std::move(text)};
  if (const std::string_view other = OtherFormOf(source.text); from.empty() && !other.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: this is a {} file, which cannot be read; give model and plan to autocfg predict "
                    "--model and --plan",
                    base::Printable(source.name), other));
  }
  const bool script = IsScript(source.name, source.text);
  TakeFurtherFiles(from, launch, source);
  if (!script && launch.arguments.size() > source.files.size() &&
      NamesNoOption(launch.arguments[source.files.size()])) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is not an option; give one file, and the options of its launch behind --",
                    base::Printable(launch.arguments[source.files.size()].text)));
  }
  if (source.framework.empty() && script) {
    AUTOCFG_RETURN_IF_ERROR(FollowScript(file, from, launch, source));
  }
  if (from == kLog && !IsLogOfSettings(source.text)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: no line of it begins a list of arguments; give a log from the start of a run, or "
                    "leave --from out",
                    base::Printable(source.name)));
  }
  if (!from.empty() && from != kLog) source.framework = from;
  return source;
}

}  // namespace

std::vector<std::string> SourceNames() {
  std::vector<std::string> names = FrameworkNames();
  names.emplace_back(kLog);
  return names;
}

absl::StatusOr<bool> IsFrameworkInput(const std::string& file, const std::string& from) {
  AUTOCFG_RETURN_IF_ERROR(CheckFrom(from));
  if (!from.empty()) return true;
  AUTOCFG_ASSIGN_OR_RETURN(const auto source, LoadSource(file, from, {}));
  return !source.framework.empty();
}

absl::StatusOr<FrameworkInput> LoadFrameworkInput(const FrameworkInputArgs& args) {
  ReadingOptions options;
  AUTOCFG_ASSIGN_OR_RETURN(options.launch, LaunchOf(args));
  AUTOCFG_ASSIGN_OR_RETURN(const auto source, LoadSource(args.file, args.from, options.launch));
  options.launch.arguments.erase(
      options.launch.arguments.begin(),
      options.launch.arguments.begin() + static_cast<std::ptrdiff_t>(source.files.size()));
  options.launch.files = source.files;
  options.launch.arguments.insert(options.launch.arguments.begin(), source.command.words.begin(),
                                  source.command.words.end());
  const std::string &name = source.name, &framework = source.framework;
  if (source.text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}: it is empty; give the framework's file", base::Printable(name)));
  }
  if (framework.empty() && ReadAnswerFile(source.text).ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: an answer of autocfg, not a framework's file; autocfg predict --input reads it",
                    base::Printable(name)));
  }
  if (framework.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: its form is that of no framework; name it with --from {}", base::Printable(name),
                    base::ChoiceText(SourceNames())));
  }
  auto said = ParseSaidOptions(args.plan);
  if (!said.ok()) return Where("--plan", said.status());
  options.plan = *std::move(said);
  AUTOCFG_ASSIGN_OR_RETURN(options.seq_len, LoadSeqLen(args.seq_len));
  std::vector<std::string> notes = source.notes;
  if (!args.model.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(options.model, LoadModel(args.model, options.seq_len, notes));
  }
  if (!args.vocab.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(options.vocab, ParseWhole("--vocab", args.vocab));
  }
  if (!args.ranks.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto ranks, ParseWhole("--ranks", args.ranks));
    options.ranks = ranks;
    options.ranks_count = true;
  }
  if (!args.cluster.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto cluster, LoadDescribedCluster(args.cluster));
    const std::int64_t ranks = RankCount(cluster);
    if (options.ranks != 0 && options.ranks != ranks) {
      return absl::InvalidArgumentError(fmt::format(
          "--ranks is {}, and --cluster {} has {}; leave --ranks out, or give a cluster with as many",
          options.ranks, cluster.name, ranks));
    }
    options.ranks = ranks;
    options.fused_attention = std::ranges::all_of(
        cluster.groups, [](const NodeGroup& group) { return group.device.fused_attention; });
  } else if (args.ranks.empty()) {
    options.ranks = source.command.ranks;
  }
  AUTOCFG_ASSIGN_OR_RETURN(auto run, ReadFrameworkFile(framework, name, source.text, options));
  if (!args.ranks.empty() && run.ranks != options.ranks) {
    return absl::InvalidArgumentError(
        fmt::format("--ranks is {}, and {} trains on {}; leave --ranks out, or change the file",
                    options.ranks, base::Printable(name), run.ranks));
  }
  run.notes.insert(run.notes.begin(), notes.begin(), notes.end());
  return FrameworkInput{std::move(run), std::move(options)};
}

BestPlan QuestionOf(const FrameworkRun& run) {
  BestPlan question;
  question.model = run.model;
  question.workload = run.workload;
  question.plan = run.plan;
  question.engine = run.engine;
  question.ranks_per_node = run.ranks_per_node;
  return question;
}

void AddFrameworkOptions(CLI::App* verb, InputArgs& args) {
  verb->add_option("--from", args.from,
                   fmt::format("the framework of --input: {}; by default as its form says",
                               base::ChoiceText(SourceNames())));
  verb->add_option("--vocab", args.vocab,
                   "tokens of the vocabulary, if the framework's file of --input does not say them");
  verb->add_option(
          "--env", args.environment,
          "NAME=VALUE, a variable that is set where the script of --input is launched; may be repeated")
      ->allow_extra_args(false);
  verb->add_option(
      "ARGS", args.arguments,
      "behind --: the arguments of the script of --input, or options that are said where the file is "
      "launched");
}

absl::Status CheckFrameworkOptions(const InputArgs& args) {
  if (!args.file.empty()) return absl::OkStatus();
  const std::string given = !args.from.empty()          ? "--from"
                            : !args.vocab.empty()       ? "--vocab"
                            : !args.environment.empty() ? "--env"
                                                        : "";
  if (given.empty() && !args.arguments.empty()) {
    const std::string& word = args.arguments.front();
    return absl::InvalidArgumentError(fmt::format("unexpected '{}'{}", base::Printable(word),
                                                  ParseStudyId(word).ok()
                                                      ? fmt::format("; did you mean --study {}?", word)
                                                      : "; only a script of --input takes arguments"));
  }
  if (given.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is for --input with a framework's file; give one, or leave it out", given));
}

absl::StatusOr<InputQuestion> LoadInputQuestion(const InputArgs& input, PlanQuestionArgs& asked) {
  const auto framework = IsFrameworkInput(input.file, input.from);
  if (!framework.ok()) return Where("--input", framework.status());
  InputQuestion read;
  read.framework = *framework;
  if (!*framework) {
    if (!input.environment.empty() || !input.arguments.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{} is for a framework's file, and --input is a search's; leave it out",
                      input.environment.empty() ? "what stands behind --" : "--env"));
    }
    if (!input.vocab.empty()) {
      return absl::InvalidArgumentError(
          "--vocab is for a framework's file, and --input is a search's, which says its model; leave --vocab "
          "out");
    }
    AUTOCFG_ASSIGN_OR_RETURN(auto file, LoadAnswerFile(input.file));
    read.question = std::move(file.best);
    asked.input = input.file;
  } else {
    if (asked.cluster.empty()) {
      return absl::InvalidArgumentError(
          "--cluster is missing: a framework's file names none; give a preset with its size, such as "
          "h100-sxm:64x8, or a file");
    }
    const auto loaded = LoadFrameworkInput({.file = input.file,
                                            .from = input.from,
                                            .model = asked.model,
                                            .cluster = asked.cluster,
                                            .ranks = {},
                                            .vocab = input.vocab,
                                            .seq_len = asked.seq_len,
                                            .plan = {},
                                            .environment = input.environment,
                                            .arguments = input.arguments});
    if (!loaded.ok()) return Where("--input", loaded.status());
    if (asked.engine.empty()) asked.engine = loaded->run.engine;
    Note(fmt::format("{} is read as a file of {}", loaded->run.settings.file, loaded->run.framework));
    for (const std::string& note : loaded->run.notes) Note(note);
    read.question = QuestionOf(loaded->run);
  }
  if (!asked.plan.empty())
    Note(fmt::format("--plan stands in place of the file's plan, {}", ShortPlanText(read.question.plan)));
  return read;
}

}  // namespace autocfg::cli
